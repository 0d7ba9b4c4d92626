/** Downloads of a bundle: cuts, the cache, and what is not as it should be. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { env, forget, InferenceSession, Tensor } from "../../../resources/runtime/index.js";
import { fakeDatabase } from "../fake_database.js";
import { base, encode, entry, expected, K, shard, tinyBundle } from "../tiny_bundle.js";

const real = { fetch: globalThis.fetch, caches: globalThis.caches };
/** @type {Map<string, Uint8Array>} */ let kept;
/** @type {number[]} */ let cuts;
const server = { files: {}, asked: [], ranges: true, sent: 0, down: false };

/** A cache of this origin, as far as it is used. */
const cache = {
  full: false,
  match: async (key) => (kept.has(key.url ?? key) ? new Response(kept.get(key.url ?? key)) : undefined),
  async put(key, response) {
    const bytes = new Uint8Array(await response.arrayBuffer());
    if (this.full) throw new DOMException("no room", "QuotaExceededError");
    kept.set(key, bytes);
  },
  keys: async () => [...kept.keys()].map((url) => ({ url })),
  delete: async (key) => kept.delete(key.url ?? key),
};

/** A static server whose connections end after the bytes of `cuts`, one each. */
async function answer(url, { headers } = {}) {
  if (server.down) throw new TypeError("network down");
  const file = String(url).slice(new URL(".", base).href.length);
  server.asked.push(file);
  const bytes = server.files[file];
  if (!bytes) return new Response("no", { status: 404 });
  const from = server.ranges ? Number(/bytes=(\d+)-/.exec(headers?.Range ?? "")?.[1] ?? 0) : 0;
  const cut = cuts.shift() ?? Infinity;
  if (cut === 0) throw new TypeError("network down");
  const parts = [bytes.slice(from, Math.min(from + cut, from + 100)), bytes.slice(from + 100, from + cut)].filter(({ length }) => length);
  const pull = (controller) => {
    const part = parts.shift();
    if (part) server.sent += part.length;
    if (part) controller.enqueue(part);
    else if (from + cut < bytes.length) controller.error(new TypeError("network down"));
    else controller.close();
  };
  return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }), { status: from ? 206 : 200 });
}

beforeEach(() => {
  kept = new Map();
  cuts = [];
  cache.full = false;
  Object.assign(server, { files: tinyBundle(), asked: [], ranges: true, sent: 0, down: false });
  globalThis.fetch = answer;
  Object.defineProperty(globalThis, "caches", { value: { open: async () => cache }, configurable: true });
});
afterEach(() => {
  globalThis.fetch = real.fetch;
  Object.defineProperty(globalThis, "caches", { value: real.caches, configurable: true });
});

const OPTIONS = { piece_bytes: 48, wait_ms: 0 };

/** Opens the bundle and runs it. */
async function visit(source = base, options = OPTIONS) {
  const session = await InferenceSession.create(source, options);
  const { y } = await session.run({ x: new Tensor("float32", [10, 20, 30], [K]) });
  await session.release();
  assert.deepEqual([...y.data], expected);
}

test("a second visit asks for the manifest alone", async () => {
  await visit();
  server.asked = [];
  await visit();
  assert.deepEqual(server.asked, ["manifest.json"]);
});

test("without a server a bundle that was kept still opens", async () => {
  await visit();
  server.down = true;
  await visit();
  await forget(true);
  await assert.rejects(InferenceSession.create(base, OPTIONS), /manifest.json of the bundle cannot be fetched: network down/);
});

test("fifty cuts at any byte end in the right answer", async () => {
  let seed = 7;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
  for (const ranges of [true, false])
    for (let visits = 0; visits < 10; visits++) {
      kept.clear();
      server.ranges = ranges;
      // a server without ranges begins again each time, so its cuts come later and later
      cuts = ranges ? Array.from({ length: 5 }, () => random(150)) : [40, 90, 140, 190, 240];
      await visit();
      assert.equal(cuts.length, 0);
    }
});

test("a download that went on is not begun again", async () => {
  const nbytes = Object.values(server.files).reduce((n, { length }) => n + length, 0);
  cuts = [Infinity, Infinity, 90, 90, 90];
  await visit();
  assert.equal(server.sent, nbytes);
});

test("a server that is gone for good is said after some tries", async () => {
  cuts = Array(100).fill(0);
  await assert.rejects(InferenceSession.create(base, OPTIONS), /manifest.json of the bundle cannot be fetched: network down/);
  assert.equal(cuts.length, 94);
  server.files["weights.bin"] = undefined;
  cuts = [];
  await assert.rejects(InferenceSession.create(base, OPTIONS), /weights.bin of the bundle cannot be fetched: the server answers 404/);
});

test("a new version fetches what changed, and the old pieces go", async () => {
  await visit();
  const old = [...kept.keys()];
  server.files = tinyBundle({
    change(manifest, files) {
      const plan = JSON.parse(new TextDecoder().decode(files["plan.json"]));
      files["plan.json"] = encode({ ...plan, name: "newer" });
      manifest.plan = entry("plan.json", files["plan.json"]);
    },
  });
  server.asked = [];
  await visit();
  assert.deepEqual(server.asked, ["manifest.json", "plan.json"]);
  await forget();
  const planPieces = old.filter((key) => !kept.has(key));
  assert.ok(planPieces.length > 0 && planPieces.length < old.length);
});

const hash = (name) => entry("", server.files[name]).sha256;

test("an update sends the shards that changed", async () => {
  server.files = tinyBundle({ change: shard });
  await visit();
  server.files = tinyBundle({
    change(manifest, files) {
      files["weights.bin"] = files["weights.bin"].slice();
      files["weights.bin"][255] ^= 1; // of the padding
      shard(manifest, files);
    },
  });
  server.asked = [];
  await visit();
  assert.equal(server.asked.length, 2);
  assert.match(server.asked[1], /^weights\//);
});

test("an evicted shard comes alone, and so does one that is damaged", async () => {
  server.files = tinyBundle({ change: shard });
  await visit();
  const shards = Object.keys(server.files).filter((file) => file.startsWith("weights/"));
  const pieces = (file) => [...kept.keys()].filter((key) => key.includes(`/${hash(file)}/`));
  for (const spoil of [(key) => kept.delete(key), (key) => (kept.get(key)[0] ^= 1)]) {
    pieces(shards[1]).forEach(spoil);
    server.asked = [];
    await visit();
    assert.deepEqual(new Set(server.asked), new Set(["manifest.json", shards[1]]));
  }
});

test("what is wrong in one bundle costs no other bundle its files", async () => {
  await visit();
  const other = "https://static.example/other/manifest.json";
  kept.set(other, encode({ weights: { file: "w.bin", sha256: "f".repeat(64), nbytes: 48 } }));
  kept.set(`https://kept.invalid/${"f".repeat(64)}/0-48`, new Uint8Array(48));
  for (const key of kept.keys()) if (key.includes("/48-")) kept.get(key)[3] ^= 1; // several files of this bundle
  await visit();
  assert.ok(kept.has(other) && kept.has(`https://kept.invalid/${"f".repeat(64)}/0-48`));
  await forget(base);
  assert.deepEqual([...kept.keys()].sort(), [`https://kept.invalid/${"f".repeat(64)}/0-48`, other]);
});

test("a session does not wait until old pieces are forgotten", async () => {
  const { keys } = cache;
  cache.keys = () => new Promise(() => {});
  await visit();
  cache.keys = keys;
});

test("a full cache gives up what no bundle names, and keeps on", async () => {
  const stale = `https://kept.invalid/${"e".repeat(64)}/0-48`;
  kept.set(stale, new Uint8Array(48));
  const { put } = cache;
  cache.put = (key, response) => (kept.has(stale) ? Promise.reject(new DOMException("no room", "QuotaExceededError")) : put.call(cache, key, response));
  await visit();
  cache.put = put;
  assert.ok(!kept.has(stale) && kept.size > 5);
});

test("without the Cache API, IndexedDB keeps the pieces", async (t) => {
  Object.defineProperty(globalThis, "caches", { value: undefined, configurable: true });
  globalThis.indexedDB = fakeDatabase(kept);
  t.after(() => delete globalThis.indexedDB);
  await visit();
  assert.ok(kept.size > 5);
  server.asked = [];
  await visit();
  assert.deepEqual(server.asked, ["manifest.json"]);
  await forget(true);
  assert.equal(kept.size, 0);
});

test("a kept piece that is damaged is fetched again", async () => {
  await visit();
  const key = [...kept.keys()].find((name) => name.includes(entry("", server.files["weights.bin"]).sha256) && name.includes("/48-"));
  kept.get(key)[3] ^= 1;
  server.asked = [];
  await visit();
  assert.ok(server.asked.includes("weights.bin"));
  server.asked = [];
  await visit();
  assert.deepEqual(server.asked, ["manifest.json"]);
});

test("a wrong file of the server is refused and not kept for the next visit", async () => {
  const right = server.files["weights.bin"];
  server.files["weights.bin"] = right.slice().fill(1, 80, 90);
  await assert.rejects(InferenceSession.create(base, OPTIONS), /weights.bin .* its sha256 differs/);
  server.files["weights.bin"] = right;
  await visit();
});

test("a cache that is full, or none, costs nothing but the second download", async () => {
  cache.full = true;
  await visit();
  assert.equal(kept.size, 0);
  globalThis.caches.open = async () => Promise.reject(new DOMException("no", "SecurityError"));
  await visit();
  await forget();
  cache.full = false;
  await visit(base, { ...OPTIONS, cache: false });
  assert.equal(kept.size, 0);
});

test("progress counts the bytes of every file, and those that were kept", async () => {
  /** @type {Record<string, {bytes: number, kept: number}>} */
  let last = {};
  const onProgress = (p) => (last[p.file] = p);
  await visit(base, { ...OPTIONS, onProgress });
  assert.deepEqual(Object.keys(last).sort(), ["kernels/a.wasm", "kernels/b.wasm", "plan.json", "weights.bin"]);
  assert.ok(Object.values(last).every(({ bytes, nbytes, kept }) => bytes === nbytes && kept === 0));
  const nbytes = Object.values(last).reduce((n, p) => n + p.nbytes, 0);
  assert.ok(Object.values(last).some(({ loaded, total }) => loaded === nbytes && total === nbytes));
  last = {};
  await visit(base, { ...OPTIONS, onProgress });
  assert.ok(Object.values(last).every(({ nbytes, kept }) => kept === nbytes));
});

test("files at hand need no server", async () => {
  globalThis.fetch = () => assert.fail("nothing is fetched");
  await visit(server.files);
  const { "weights.bin": left_out, ...others } = server.files;
  await assert.rejects(InferenceSession.create(others), /weights.bin of the bundle cannot be fetched: the server answers 404/);
  assert.equal(env.wasm.proxy, false);
});
