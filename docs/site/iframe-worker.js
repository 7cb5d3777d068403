// Browsers start no worker for a page that was opened from a disk; the search needs one. This stands in for it: a
// hidden frame that runs the worker's script and passes messages both ways. Elsewhere the browser's own worker is used.
if (location.protocol === "file:") {
  const inside = (url) => `<script>
    postMessage = (data) => parent.postMessage({ worker: ${JSON.stringify(String(url))}, data }, "*")
    importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((loaded) => {
      const script = document.createElement("script")
      script.src = url
      script.onload = loaded
      document.head.appendChild(script)
    })), Promise.resolve())
  <\/script>
  <script src=${JSON.stringify(String(url))}><\/script>
  <script>parent.postMessage({ worker: ${JSON.stringify(String(url))}, ready: true }, "*")<\/script>`

  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.ready = false
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      addEventListener("message", (event) => {
        if (event.source !== this.frame.contentWindow || event.data.worker !== String(url)) return
        if (event.data.ready) {
          this.ready = true
          this.waiting.splice(0).forEach((data) => this.postMessage(data))
          return
        }
        const message = new MessageEvent("message", { data: event.data.data })
        this.dispatchEvent(message)
        if (this.onmessage) this.onmessage(message)
      })
      document.body.appendChild(this.frame)
      const page = this.frame.contentDocument
      page.open()
      page.write(inside(url))
      page.close()
    }

    postMessage(data) {
      if (this.ready) this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
      else this.waiting.push(data)
    }

    terminate() {
      this.frame.remove()
    }
  }
}
