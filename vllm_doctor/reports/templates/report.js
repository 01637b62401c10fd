"use strict";
(function () {
  var announcement = document.getElementById("announcement");

  function select(node) {
    var range = document.createRange();
    range.selectNodeContents(node);
    var selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }

  function announce(button, text) {
    var label = button.getAttribute("data-label") || button.textContent;
    button.setAttribute("data-label", label);
    button.textContent = text;
    announcement.textContent = text;
    window.setTimeout(function () {
      button.textContent = label;
      announcement.textContent = "";
    }, 2000);
  }

  function copyBySelection(button, node) {
    node.hidden = false;
    select(node);
    var done = false;
    try {
      done = document.execCommand("copy");
    } catch (error) {
      done = false;
    }
    announce(button, done ? announcement.dataset.copied : announcement.dataset.selected);
  }

  document.querySelectorAll("button.copy").forEach(function (button) {
    var node = document.getElementById(button.getAttribute("aria-controls"));
    button.hidden = false;
    button.addEventListener("click", function () {
      if (navigator.clipboard && window.isSecureContext) {
        navigator.clipboard.writeText(node.textContent).then(
          function () { announce(button, announcement.dataset.copied); },
          function () { copyBySelection(button, node); }
        );
      } else {
        copyBySelection(button, node);
      }
    });
  });

  var opened = [];
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details:not([open])").forEach(function (box) {
      box.open = true;
      opened.push(box);
    });
  });
  window.addEventListener("afterprint", function () {
    opened.forEach(function (box) { box.open = false; });
    opened = [];
  });
})();
