/**
 * Times `new WebAssembly.Module`, file by file in turns: as a worker of a page, in Node, and in
 * SpiderMonkey's shell. A plain script, because that shell has no modules by default.
 */

/** @type {any} */
const host = globalThis;

/** Engines remember modules by their bytes: a custom section makes each copy another module. */
let copies = 0;

/** @param {Uint8Array} bytes @returns {Uint8Array<ArrayBuffer>} */
function fresh(bytes) {
  const copy = new Uint8Array(bytes.length + 8);
  copy.set(bytes);
  copy.set([0, 6, 1, 110, copies & 127, (copies >> 7) & 127, (copies >> 14) & 127, 0], bytes.length);
  copies++;
  return copy;
}

/** @param {Uint8Array} bytes @returns {number | string} milliseconds, or why the engine refuses it */
function timed(bytes) {
  const copy = fresh(bytes);
  const start = performance.now();
  try {
    new WebAssembly.Module(copy);
  } catch (e) {
    return String(e);
  }
  return performance.now() - start;
}

/**
 * One list a round; null for what took too long to be done again.
 * @param {Uint8Array[]} modules @param {number} rounds @param {number} slowMs
 */
function* inTurns(modules, rounds, slowMs) {
  /** @type {(number | string)[]} */
  let first = [];
  for (let round = 0; round < rounds; round++) {
    const once = (/** @type {number | string} */ ms) => typeof ms === "string" || ms > slowMs;
    const row = modules.map((bytes, i) => (round && once(first[i]) ? null : timed(bytes)));
    if (!round) first = /** @type {(number | string)[]} */ (row);
    yield row;
  }
}

/** @param {string[]} names @param {number} rounds @param {number} slowMs */
async function inWorker(names, rounds, slowMs) {
  const bytes = async (/** @type {string} */ name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
  const modules = await Promise.all(names.map(bytes));
  for (const row of inTurns(modules, rounds, slowMs)) host.postMessage({ type: "row", ms: row });
  host.postMessage({ type: "done" });
}

/** @param {string[]} given rounds, milliseconds, files */
function inShell([rounds, slowMs, ...names]) {
  const fs = host.process?.getBuiltinModule("fs");
  const read = fs ? fs.readFileSync : (/** @type {string} */ name) => host.os.file.readFile(name, "binary");
  const say = host.print ?? console.log;
  for (const row of inTurns(names.map((name) => read(name)), Number(rounds), Number(slowMs))) say(`@row ${JSON.stringify(row)}`);
  // its memory is looked at before it may end
  if (fs) fs.readSync(0, new Uint8Array(1));
  else host.readline();
}

if (host.WorkerGlobalScope) {
  host.onmessage = (/** @type {MessageEvent} */ { data }) => inWorker(data.files, data.rounds, data.slow_ms).catch((e) => host.postMessage({ type: "error", error: String(e) }));
} else {
  inShell(host.process ? host.process.argv.slice(2) : host.scriptArgs);
}
