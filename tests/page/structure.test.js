/** The order of the folders of resources/, and the size of their files. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { test } from "node:test";
import ts from "typescript";

const root = new URL("../../resources/", import.meta.url);
/** What the modules of a folder may use, their own folder aside. */
const BELOW = {
  types: [],
  engine: ["types"],
  sdk: ["engine", "types"],
  check: [],
  demo: ["sdk", "engine", "types"],
  runtime: ["sdk", "engine", "types"],
  live: ["types"],
  studio: ["engine", "types"],
  offload: ["engine", "types"],
  bench: ["offload", "sdk", "studio", "live", "engine", "types"],
  "nnjit.js": ["sdk"],
};
const MOST_FILES = 20;
const MOST_LINES = 400;
const MOST_FUNCTION_LINES = 80;

const entries = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile() && !/\.pyc?$/.test(entry.name) && !/\/docs(\/|$)/.test(entry.parentPath));
const pathOf = (/** @type {import("node:fs").Dirent} */ { parentPath, name }) => posix.join(parentPath, name).slice(root.pathname.length);
const modules = new Map(
  entries.filter(({ name }) => name.endsWith(".js")).map((entry) => [pathOf(entry), readFileSync(posix.join(entry.parentPath, entry.name), "utf8")]),
);
/** All that a module names of others: imports, workers and types alike, examples aside. @type {Map<string, string[]>} */
const uses = new Map(
  [...modules].map(([path, text]) => [path, [...text.replace(/^ \* {5}.*$/gm, "").matchAll(/"(\.\.?\/[\w./]+\.js)"/g)].map(([, name]) => posix.join(posix.dirname(path), name))]),
);

test("modules use what lies below their folder, and it is there", () => {
  for (const [path, used] of uses)
    for (const other of used) {
      assert.ok(modules.has(other), `${path} names ${other}, which is not there`);
      const [mine, theirs] = [path, other].map((p) => p.split("/")[0]);
      assert.ok(mine === theirs || BELOW[/** @type {keyof typeof BELOW} */ (mine)].includes(theirs), `${path} uses ${other}`);
    }
  assert.ok([...uses.values()].flat().length > 200);
});

test("no circle between modules", () => {
  /** @type {Set<string>} */
  const clear = new Set();
  const walk = (/** @type {string} */ path, /** @type {string[]} */ way) => {
    assert.ok(!way.includes(path), [...way.slice(way.indexOf(path)), path].join(" > "));
    if (clear.has(path)) return;
    for (const other of uses.get(path) ?? []) walk(other, [...way, path]);
    clear.add(path);
  };
  for (const path of modules.keys()) walk(path, []);
});

test(`a folder has at most ${MOST_FILES} files`, () => {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const { parentPath } of entries) counts[parentPath] = (counts[parentPath] ?? 0) + 1;
  for (const [folder, count] of Object.entries(counts)) assert.ok(count <= MOST_FILES, `${folder} has ${count}`);
});

test("files and functions are short", () => {
  for (const [path, text] of modules) {
    assert.ok(text.split("\n").length <= MOST_LINES, path);
    const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
    const visit = (/** @type {ts.Node} */ node) => {
      if (ts.isFunctionLike(node)) {
        const [first, last] = [node.getStart(source), node.end].map((at) => source.getLineAndCharacterOfPosition(at).line);
        assert.ok(last - first < MOST_FUNCTION_LINES, `${path}:${first + 1}`);
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
});
