// A page that is opened from disk may not start a worker, and the search needs one. There, run the worker's script in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const start = () => this.start(String(url));
      document.body ? start() : addEventListener("DOMContentLoaded", start);
    }

    start(url) {
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      // A worker's importScripts waits; here it returns a promise.
      this.inside.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => this.load(each, url)), Promise.resolve());
      this.load(url, location.href).then(() => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
    }

    load(url, base) {
      return new Promise((done, failed) => {
        const script = this.inside.document.createElement("script");
        script.src = new URL(url, base).href;
        script.onload = done;
        script.onerror = failed;
        this.inside.document.body.appendChild(script);
      });
    }

    postMessage(data) {
      if (!this.ready) this.waiting.push(data);
      else this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }

    terminate() {
      if (this.inside) this.inside.frameElement.remove();
    }
  };
}
