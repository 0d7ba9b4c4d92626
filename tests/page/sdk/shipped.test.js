/** A bundle ships engine/, sdk/ and demo/; folders named gpu, mixed, generation, open and text go with the bundles that need them. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

const resources = new URL("../../../resources/", import.meta.url);
const read = (/** @type {string} */ file) => readFileSync(new URL(file, resources), "utf8");

/** @param {string[]} optional folders that ship too */
function shipped(...optional) {
  const inFolders = ["engine", "sdk", "demo"].flatMap((folder) =>
    readdirSync(new URL(folder, resources), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`.slice(resources.pathname.length)),
  );
  const left_out = ["gpu", "generation", "mixed", "open", "text", "tuning"].filter((name) => !optional.includes(name));
  return ["index.html", "nnjit.js", ...inFolders].filter((file) => !file.split("/").some((part) => left_out.includes(part)));
}

/** @param {string} file @returns {string[]} what it cannot do without */
function needs(file) {
  const static_import = /^(?:import|export) (?:.* from )?"(.+)";$|new URL\("(\..+)",|(?:src|href)="(.+?)"/gm;
  return [...read(file).matchAll(static_import)].map(([, ...found]) => {
    const target = new URL(/** @type {string} */ (found.find(Boolean)), new URL(file, resources));
    return target.href.slice(resources.href.length);
  });
}

for (const optional of [[], ["gpu"], ["gpu", "mixed"], ["generation"], ["open"], ["text"]])
  test(`a bundle ships every file that its files need (${optional.join(", ") || "nothing optional"})`, () => {
    const files = shipped(...optional);
    let links = 0;
    for (const file of files)
      for (const needed of needs(file)) {
        if (needed === "") continue; // the folder of the bundle itself
        assert.ok(files.includes(needed), `${file} needs ${needed}`);
        links++;
      }
    assert.ok(links > 20);
  });

test("the optional folders hold what only some bundles need", () => {
  assert.ok(shipped("gpu").includes("engine/gpu/engine.js"));
  assert.ok(shipped("generation").includes("engine/generation/generate.js"));
  assert.ok(shipped("open").includes("engine/open/sizes.js"));
  assert.ok(!shipped().some((file) => /gpu|generation|open\//.test(file)));
});

test("the engine that a page loads for Wasm is at most 30 KB gzipped as it is written", () => {
  /** @type {Set<string>} */
  const loaded = new Set();
  const load = (/** @type {string} */ file) => {
    if (loaded.has(file)) return;
    loaded.add(file);
    needs(file).filter((needed) => needed.endsWith(".js")).forEach(load);
  };
  load("nnjit.js");
  assert.ok(!loaded.has("engine/pool_worker.js"), "threads are loaded where they run");
  const bytes = [...loaded].reduce((n, file) => n + gzipSync(read(file)).length, 0);
  assert.ok(bytes <= 30_000, `${bytes} bytes`);
});
