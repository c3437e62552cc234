/* A browser starts no worker from a file on a disk. There, and only there, the search runs in a hidden frame of the page. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.appendChild(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const load = (address) =>
        new Promise((loaded, failed) => {
          const script = frame.contentDocument.createElement("script");
          script.src = new URL(address, document.baseURI).href;
          script.onload = loaded;
          script.onerror = failed;
          frame.contentDocument.documentElement.appendChild(script);
        });
      this.inner.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => load(address)), Promise.resolve());
      this.ready = load(url);
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
