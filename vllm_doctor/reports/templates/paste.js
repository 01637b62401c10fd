"use strict";
(function () {
  var form = document.querySelector("form");
  var file = document.getElementById("file");
  var announcement = document.getElementById("announcement");
  if (!form) { return; }
  var most = Number(form.getAttribute("data-most"));

  function size() {
    var bytes = new Blob([document.getElementById("log").value]).size;
    for (var index = 0; index < file.files.length; index += 1) { bytes += file.files[index].size; }
    return bytes;
  }

  form.addEventListener("submit", function (event) {
    if (!file.files.length && !document.getElementById("log").value.trim()) {
      event.preventDefault();
      announcement.textContent = announcement.dataset.nothing;
      return;
    }
    if (size() > most) {
      event.preventDefault();
      announcement.textContent = announcement.dataset.large;
      return;
    }
    announcement.textContent = announcement.dataset.reading;
  });
  window.addEventListener("pageshow", function () { announcement.textContent = ""; });

  document.addEventListener("dragover", function (event) {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", function (event) {
    if (!event.relatedTarget) { document.body.classList.remove("dropping"); }
  });
  document.addEventListener("drop", function (event) {
    event.preventDefault();
    document.body.classList.remove("dropping");
    if (event.dataTransfer.files.length) {
      file.files = event.dataTransfer.files;
      form.requestSubmit();
    } else {
      document.getElementById("log").value = event.dataTransfer.getData("text/plain");
    }
  });
})();
