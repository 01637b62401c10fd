// Makes the search find an error that is pasted into it. The theme reads - + ~ ^ * " : as operators and completes every word, which is
// right for a few typed words; a line of a log is searched for its exact words instead, without its prefixes, numbers and punctuation.
(() => {
  const QUERY = 2; // the type of the message that asks the theme's search worker
  const fewWords = 4, mostWords = 40;
  const common = new Set(("a an and are as at be but by for from has have if in into is it its no not of on or that the this to was when with you your " +
    "vllm any release info error warning critical debug file line py python site packages lib value input type traceback most recent call last").split(" "));
  const prefix = /^.*?\b(?:INFO|ERROR|WARNING|CRITICAL|DEBUG)\b \d\d-\d\d [\d:.]+ (?:\[[^\]]*\] ?)?/;

  const han = /\p{Script=Han}/gu; // the index has each Chinese character as a word
  const words = text => text.replace(han, " $& ").split(/[^\p{L}\p{N}_.]+/u).map(word => word.replace(/^[._]+|[._]+$/g, "")).filter(Boolean);
  const exact = text => {
    const found = words(text.replace(prefix, "")).filter(word => !/^[\d.]+$/.test(word) && !common.has(word.toLowerCase()));
    return [...new Set(found)].slice(0, mostWords).map(word => `text:${word}^1`).join(" ");
  };
  const query = text => text.search(han) < 0 && words(text).length > fewWords ? exact(text) || text : words(text).join(" ");

  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    const isQuery = message && message.type === QUERY && typeof message.data === "string";
    return post.call(this, isQuery ? {...message, data: query(message.data)} : message, ...rest);
  };

  // An input field joins pasted lines: of several, keep the last one that names an error.
  addEventListener("paste", event => {
    const lines = event.clipboardData.getData("text").split(/\r?\n/).filter(line => line.trim());
    if (!(event.target instanceof HTMLInputElement && event.target.name === "query") || lines.length < 2) return;
    event.preventDefault();
    event.target.value = (lines.filter(line => /\w(?:Error|Exception)\b|\berror:/.test(line)).pop() || lines.pop()).trim();
    for (const name of ["input", "keyup"]) event.target.dispatchEvent(new Event(name, {bubbles: true})); // the theme listens to keys
  }, true);
})();
