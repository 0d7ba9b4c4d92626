/**
 * Opened from the disk, where browsers load no modules and fetch no files: asks for the bundle's
 * folder, and gives the modules and files of it addresses of their own. No module itself.
 */
(() => {
  if (location.protocol !== "file:") return;
  const ROOT = "https://bundle.invalid/"; // an address that nobody has; nothing is asked of it
  /** @type {Map<string, File>} */
  const files = new Map();
  const say = (/** @type {string} */ text) => {
    const note = /** @type {HTMLElement} */ (document.getElementById("note"));
    note.textContent = text;
    note.hidden = false;
  };

  /** The module with full addresses in it. @param {string} path @param {string} text */
  function addressed(path, text) {
    const here = ROOT + path;
    return text
      .replace(/((?:from|import)\s*\(?\s*)"(\.\.?\/[^"]+)"/g, (_, before, name) => `${before}"${new URL(name, here)}"`)
      .replaceAll("import.meta.url", JSON.stringify(here));
  }

  async function start() {
    /** @type {Record<string, string>} */
    const imports = {};
    for (const [path, file] of files)
      if (path.endsWith(".js")) imports[ROOT + path] = URL.createObjectURL(new Blob([addressed(path, await file.text())], { type: "text/javascript" }));
    const map = document.createElement("script");
    map.type = "importmap";
    map.textContent = JSON.stringify({ imports });
    document.head.append(map);
    const begin = document.createElement("script");
    begin.type = "module";
    begin.textContent = `
      import { transport } from "${ROOT}sdk/bundle_fetch.js";
      transport.fetch = async (url) => globalThis.nnjitAnswer(url);
      await import("${ROOT}" + "demo/page.js");`;
    document.head.append(begin);
  }

  /** A file as a server would send it. @param {URL} url */
  function answer(url) {
    const path = decodeURIComponent(url.href.slice(new URL(".", document.baseURI).href.length));
    const file = files.get(path);
    return file ? new Response(file) : new Response(null, { status: 404 });
  }

  /** @param {FileList | null} list */
  function take(list) {
    for (const file of list ?? []) files.set(file.webkitRelativePath.split("/").slice(1).join("/"), file);
    if (!files.has("manifest.json")) return say("This folder holds no manifest.json. Choose the folder that index.html lies in.");
    /** @type {HTMLElement} */ (document.getElementById("disk")).remove();
    /** @type {HTMLElement} */ (document.getElementById("note")).hidden = true;
    Object.assign(globalThis, { nnjitAnswer: answer });
    start().catch((e) => say(e.message));
  }

  addEventListener("DOMContentLoaded", () => {
    const card = document.createElement("section");
    card.className = "card";
    card.id = "disk";
    card.innerHTML = `<h2>Opened from the disk</h2>
      <p>Browsers load no modules and files from there by themselves. Choose the folder that this page lies in,
      and the model runs, with one thread; camera, microphone and threads may need a server:
      <code>python3 -m http.server</code> in the folder, then <code>http://localhost:8000</code>.</p>
      <label class="field"><span>The bundle's folder</span><input id="folder" type="file" webkitdirectory multiple /></label>`;
    /** @type {HTMLElement} */ (document.querySelector("main")).insertBefore(card, document.getElementById("inputs"));
    const input = /** @type {HTMLInputElement} */ (document.getElementById("folder"));
    input.addEventListener("change", () => take(input.files));
    /** @type {HTMLElement} */ (document.getElementById("state")).textContent = "Waiting for the folder";
  });
})();
