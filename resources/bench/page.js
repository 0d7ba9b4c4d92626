/** What all benchmark pages share: their files, their reports, the peers' scripts. */

const root = new URL("../", import.meta.url);
export const NODE_MODULES = new URL("node_modules/", root).href;

export const file = (/** @type {string} */ path) => new URL(`files/${path}`, root).href;
export const post = (/** @type {string} */ path, /** @type {BodyInit} */ body) => fetch(new URL(path, root), { method: "POST", body });

/** @param {Record<string, unknown>} message */
export function report(message) {
  const log = /** @type {HTMLElement} */ (document.getElementById("log"));
  log.textContent += `${JSON.stringify(message).slice(0, 400)}\n`;
  return post("report", JSON.stringify(message));
}

/** @param {string} path */
export const fetchBytes = async (path) => (await fetch(file(path))).arrayBuffer();

/** @type {Record<string, any>} by the types of ONNX Runtime Web */
const ARRAYS = {
  float32: Float32Array,
  float16: /** @type {any} */ (globalThis).Float16Array ?? Uint16Array,
  float64: Float64Array,
  int64: BigInt64Array,
  int32: Int32Array,
  uint8: Uint8Array,
  int8: Int8Array,
  bool: Uint8Array,
};

/** A model's inputs with the numbers of their files. @param {{inputs: {name: string, type: string, dims: number[], file: string}[]}} job */
export const fetchInputs = ({ inputs }) =>
  Promise.all(inputs.map(async ({ name, type, dims, file: path }) => ({ name, type, dims, data: new ARRAYS[type](await fetchBytes(path)) })));

/** @returns {Promise<any>} what is to be done */
export const fetchJob = async () => (await fetch(file("job.json"))).json();

/**
 * Runs a page to its end; what it throws is reported.
 * @param {() => Promise<unknown>} work
 * @param {(e: any) => string} [told] what is said of an error
 */
export async function conduct(work, told = (e) => e.stack ?? e) {
  try {
    if (!crossOriginIsolated) throw new Error("The page is not cross-origin isolated.");
    await work();
  } catch (e) {
    await report({ type: "error", error: `The benchmark page failed: ${told(e)}` });
  }
}

/** Loads scripts of a library, one after another. @param {string} folder in `node_modules` @param {string[]} scripts */
export async function loadScripts(folder, ...scripts) {
  for (const path of scripts)
    await new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${NODE_MODULES}${folder}/${path}`;
      script.addEventListener("load", resolve);
      script.addEventListener("error", () => reject(new Error(`${script.src} did not load.`)));
      document.head.append(script);
    });
  return /** @type {any} */ (globalThis);
}

/**
 * @param {string} build of ONNX Runtime Web
 * @param {number} threads
 * @param {string} [wasm] address of a module in the place of the package's own
 * @returns {Promise<any>}
 */
export async function loadOnnxRuntime(build, threads, wasm = "") {
  const dist = `${NODE_MODULES}onnxruntime-web/dist/`;
  // The query makes it another copy of the library: one holds one module.
  const ort = await import(`${dist}${build}${wasm && "?own"}`);
  Object.assign(ort.env.wasm, { wasmPaths: wasm ? { wasm } : dist, numThreads: threads });
  return ort;
}

/** The text of a module that names another by a bare name, with that module's address. @param {string} module in `node_modules` @param {string} bare @param {string} path */
export async function importWith(module, bare, path) {
  const text = await (await fetch(NODE_MODULES + module)).text();
  const whole = text.replaceAll(`"${bare}"`, JSON.stringify(NODE_MODULES + path));
  return import(URL.createObjectURL(new Blob([whole], { type: "text/javascript" })));
}

/** Versions of the peers that were loaded. @param {any} ort @param {any} tf @returns {Record<string, string>} */
export const versionsOf = (ort, tf) => ({
  ...(ort ? { ort: ort.env.versions.web } : {}),
  ...(tf ? { tfjs: tf.version_core ?? tf.version?.["tfjs-core"] } : {}),
});

/** Each of a list once a round; who begins changes from round to round. @template T @param {T[]} list @param {number} rounds */
export function* turns(list, rounds) {
  for (let round = 0; round < rounds; round++) for (let turn = 0; turn < list.length; turn++) yield list[(round + turn) % list.length];
}

/** The middle one. @param {number[]} numbers */
export const median = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];
