"use strict";
(() => {
  const AGAIN = 10000; // ms until a connection that the server refused is tried again
  let isConnected = false;
  let received = Date.now();

  function show(selector, text) {
    const element = document.querySelector(selector);
    if (element && element.textContent !== text) element.textContent = text;
  }

  function showLink() {
    const seconds = Math.round((Date.now() - received) / 1000);
    show("#link", isConnected ? `live, updated ${seconds} s ago` : "connection lost, trying again");
    document.querySelector("#link")?.classList.toggle("lost", !isConnected);
  }

  // The text is HTML that sparkfleet escaped. A part that is as before stays, with its selection.
  function replaceParts(text) {
    const template = document.createElement("template");
    template.innerHTML = text;
    for (const part of template.content.querySelectorAll("header[id], section[id], footer[id]")) {
      const old = document.getElementById(part.id);
      if (old && old.dataset.text !== part.innerHTML) {
        part.dataset.text = part.innerHTML;
        old.replaceWith(part);
      }
    }
  }

  function follow() {
    const source = new EventSource("events");
    source.onopen = () => { isConnected = true; showLink(); };
    source.onmessage = (event) => {
      isConnected = true;
      received = Date.now();
      replaceParts(event.data);
      showLink();
    };
    source.onerror = () => {
      isConnected = false;
      showLink();
      if (source.readyState === EventSource.CLOSED) setTimeout(follow, AGAIN);
    };
  }

  setInterval(showLink, 1000);
  follow();
})();
