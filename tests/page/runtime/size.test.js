/** What a page loads of the npm package, built and minified as its developer does it, gzipped. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { build } from "vite";

const entry = new URL("../../../resources/runtime/index.js", import.meta.url).pathname;
/** Loaded where a page asks for tuning, and where a bundle's steps are divided between WebGPU and Wasm. */
const ASKED = /^(tuning|trial_worker|mixed)-/;

test("one-shot Wasm is at most 30 KB; WebGPU, texts, any size and threads in a worker at most 45 KB", async () => {
  const root = mkdtempSync(join(tmpdir(), "size-"));
  try {
    writeFileSync(join(root, "main.js"), `import * as runtime from ${JSON.stringify(entry)}; globalThis.runtime = runtime;`);
    writeFileSync(join(root, "index.html"), '<script type="module" src="/main.js"></script>');
    const options = { root, logLevel: /** @type {const} */ ("silent"), worker: { format: /** @type {const} */ ("es") }, build: { write: false, target: "es2022", modulePreload: false } };
    const { output } = /** @type {any} */ (await build(options));
    const chunks = new Map(output.filter((/** @type {any} */ { type }) => type === "chunk").map((/** @type {any} */ chunk) => [chunk.fileName, chunk]));
    /** A module and what it cannot do without. @param {string} name @param {Set<string>} found */
    const closure = (name, found = new Set()) => {
      found.add(name);
      for (const needed of chunks.get(name).imports) if (!found.has(needed)) closure(needed, found);
      return found;
    };
    const named = (/** @type {string} */ start) => {
      const name = [...chunks.keys()].find((file) => file.split("/").at(-1).startsWith(start));
      assert.ok(name, `${start} is a part of its own`);
      return name;
    };
    const size = (/** @type {Iterable<string>} */ names) => [...names].reduce((sum, name) => sum + gzipSync(chunks.get(name).code).length, 0);
    const one_shot = size(new Set([...closure(named("index-")), ...closure(named("open-"))]));
    const page = size(new Set([...closure(named("index-")), ...closure(named("proxy-"))]));
    const scripts = output.filter((/** @type {any} */ { type, fileName }) => type === "asset" && fileName.endsWith(".js"));
    const worker = scripts.filter((/** @type {any} */ { fileName }) => !ASKED.test(fileName.split("/").at(-1)));
    assert.ok(worker.length > 4, "the worker, WebGPU, texts, sizes and threads");
    const full = page + worker.reduce((/** @type {number} */ sum, /** @type {any} */ { source }) => sum + gzipSync(source).length, 0);
    console.log(`one-shot ${one_shot}, page of the worker ${page}, with all in the worker ${full} bytes`);
    assert.ok(one_shot > 5_000 && one_shot <= 30_000, `${one_shot} bytes`);
    assert.ok(full > one_shot && full <= 45_000, `${full} bytes`);
  } finally {
    rmSync(root, { recursive: true });
  }
});
