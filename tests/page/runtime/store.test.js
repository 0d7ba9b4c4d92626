/** Downloads of a bundle: cuts, the cache, and what is not as it should be. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { env, forget, InferenceSession, Tensor } from "../../../resources/runtime/index.js";
import { keepAll, later } from "../../../resources/runtime/later.js";
import { fakeDatabase } from "../fake_database.js";
import { base, encode, entry, expected, K, shard, tinyBundle } from "../tiny_bundle.js";

const real = globalThis.fetch;
/** @type {Map<string, Uint8Array>} */ let kept;
/** @type {number[]} */ let cuts;
const server = { files: {}, asked: [], ranges: true, sent: 0, down: false };

/** The database of this origin. */
const everything = { isFull: (/** @type {string} */ _) => false, keys: () => /** @type {unknown} */ ([...kept.keys()]) };
const disk = { ...everything };

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
  Object.assign(disk, everything);
  Object.assign(server, { files: tinyBundle(), asked: [], ranges: true, sent: 0, down: false });
  globalThis.fetch = answer;
  globalThis.indexedDB = /** @type {any} */ (fakeDatabase(kept, disk));
});
afterEach(async () => {
  await keepAll();
  globalThis.fetch = real;
  delete globalThis.indexedDB;
});

const OPTIONS = { piece_bytes: 48, wait_ms: 0, keep_ms: 0 };

/** Opens the bundle and runs it, and stays until what came is kept. */
async function visit(source = base, options = OPTIONS) {
  try {
    const session = await InferenceSession.create(source, options);
    const { y } = await session.run({ x: new Tensor("float32", [10, 20, 30], [K]) });
    await session.release();
    assert.deepEqual([...y.data], expected);
  } finally {
    await keepAll();
  }
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
  await assert.rejects(visit(), /manifest.json of the bundle cannot be fetched: network down/);
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

test("a server without ranges sends again what is skipped, to the byte", async () => {
  server.ranges = false;
  for (const cut of [30, 90, 130, 170]) {
    kept.clear();
    cuts = [Infinity, Infinity, cut];
    await visit();
    assert.equal(cuts.length, 0);
  }
});

test("a server that is gone for good is said after some tries", async () => {
  cuts = Array(100).fill(0);
  await assert.rejects(visit(), /manifest.json of the bundle cannot be fetched: network down/);
  assert.equal(cuts.length, 94);
  server.files["weights.bin"] = undefined;
  cuts = [];
  await assert.rejects(visit(), /weights.bin of the bundle cannot be fetched: the server answers 404/);
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
  disk.keys = () => new Promise(() => {});
  await visit();
});

test("a full cache gives up what no bundle names, and keeps on", async () => {
  const stale = `https://kept.invalid/${"e".repeat(64)}/0-48`;
  kept.set(stale, new Uint8Array(48));
  disk.isFull = () => kept.has(stale);
  await visit();
  assert.ok(!kept.has(stale) && kept.size > 5);
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
  await assert.rejects(visit(), /weights.bin .* its sha256 differs/);
  server.files["weights.bin"] = right;
  await visit();
});

test("a cache that is full, or none, costs nothing but the second download", async () => {
  disk.isFull = () => true;
  await visit();
  assert.equal(kept.size, 0);
  disk.isFull = everything.isFull;
  const refused = () => {
    const opening = /** @type {any} */ ({ error: new DOMException("no", "SecurityError") });
    queueMicrotask(() => opening.onerror());
    return opening;
  };
  for (const database of [undefined, { open: refused }]) {
    globalThis.indexedDB = /** @type {any} */ (database);
    await visit();
    await forget();
  }
  globalThis.indexedDB = /** @type {any} */ (fakeDatabase(kept, disk));
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

/** The bundle with another version of its plan, and so another manifest. */
const newer = (plan) =>
  tinyBundle({
    change(manifest, files) {
      const old = JSON.parse(new TextDecoder().decode(files["plan.json"]));
      delete files["plan.json"];
      files[plan] = encode({ ...old, name: "newer" });
      manifest.plan = entry(plan, files[plan]);
    },
  });

test("a connection that ends for good costs nothing of what was kept", async () => {
  server.files = tinyBundle({ change: shard });
  await visit();
  const shards = Object.keys(server.files).filter((file) => file.startsWith("weights/"));
  for (const key of kept.keys()) if (key.includes(`/${hash(shards[1])}/`)) kept.delete(key);
  const before = new Set(kept.keys());
  cuts = [Infinity, ...Array(100).fill(0)];
  await assert.rejects(visit(), /cannot be fetched: network down/);
  assert.deepEqual(new Set(kept.keys()), before);
});

test("a bundle that is replaced while it comes opens as it is then", async () => {
  for (const plan of ["plan.json", "plan-2.json"]) {
    kept.clear();
    server.files = tinyBundle();
    globalThis.fetch = async (url, options) => {
      const response = await answer(url, options);
      if (String(url).endsWith("manifest.json")) server.files = newer(plan);
      return response;
    };
    await visit();
  }
});

test("a wrong file of the server costs no kept file, and is fetched once", async () => {
  await visit();
  const name = "kernels/b.wasm";
  for (const key of kept.keys()) if (key.includes(`/${hash(name)}/`)) kept.delete(key);
  const before = new Set(kept.keys());
  server.files[name] = server.files[name].slice().fill(1, 20, 22);
  server.asked = [];
  await assert.rejects(visit(), /b.wasm .* its sha256 differs/);
  assert.deepEqual(server.asked.filter((file) => file !== "manifest.json"), [name]);
  assert.ok([...before].every((key) => kept.has(key)));
});

test("a page that stands in for the manifest takes nothing away", async () => {
  await visit();
  const before = new Set(kept.keys());
  const right = server.files["manifest.json"];
  for (const page of ["<!doctype html><title>Log in</title>", "{}", ""]) {
    server.files["manifest.json"] = new TextEncoder().encode(page);
    await assert.rejects(visit(), /manifest/);
    await forget();
    assert.deepEqual(new Set(kept.keys()), before);
  }
  server.files["manifest.json"] = right;
  await visit();
});

test("a manifest of which a browser gives a part as the whole is asked for again", async () => {
  let asked = 0;
  globalThis.fetch = async (url, options) => {
    const bytes = server.files["manifest.json"];
    if (!String(url).endsWith("manifest.json") || asked++) return answer(url, options);
    return new Response(bytes.slice(0, 90), { headers: { "Content-Length": String(bytes.length) } });
  };
  await visit();
  assert.equal(asked, 2);
});

test("a database that the browser evicts during a visit costs nothing else", async () => {
  let transactions = 0;
  const gone = () => {
    throw new DOMException("The database connection is closing.", "InvalidStateError");
  };
  const fake = fakeDatabase(kept);
  const open = () => {
    const opening = fake.open();
    queueMicrotask(() => {
      const { transaction } = opening.result;
      opening.result.transaction = () => (++transactions > 3 ? gone() : transaction());
    });
    return opening;
  };
  globalThis.indexedDB = /** @type {any} */ ({ open });
  await visit();
  assert.ok(transactions > 3);
});

test("two sessions of one bundle at once get over their cuts", async () => {
  cuts = [Infinity, 30, 30, 30, 30, 30, 30, 30, 30];
  await Promise.all([visit(), visit()]);
  assert.equal(cuts.length, 0);
});

test("a changed byte anywhere in a sealed manifest is noticed, and one in a file too", async () => {
  const sealed = (manifest, files) => {
    shard(manifest, files);
    manifest.sha256 = "";
  };
  const files = tinyBundle({ change: sealed });
  server.files = files;
  await visit();
  let right = 0;
  for (const [name, bytes] of Object.entries(files))
    for (let at = 0; at < bytes.length; at += 3) {
      kept.clear();
      const changed = bytes.slice();
      changed[at] ^= 1 << (at % 7);
      server.files = { ...files, [name]: changed };
      try {
        await visit();
        right++; // such as a letter of the manifest's key "sha256"
      } catch (e) {
        assert.equal(e.name, "EngineError", `${name} at ${at}: ${e.stack}`);
      }
    }
  assert.ok(right < 5, String(right));
});

test("what waits to be kept is found by the next visit, and forgotten when asked", async () => {
  await new Promise((resume) => setTimeout(resume, 10)); // timers of other tests are over
  const patient = { ...OPTIONS, keep_ms: 2000 };
  const opened = async () => (await InferenceSession.create(base, patient)).release();
  await opened();
  assert.equal(kept.size, 0);
  server.asked = [];
  await opened();
  assert.deepEqual(server.asked, ["manifest.json"]);
  await forget(true);
  await keepAll();
  assert.equal(kept.size, 0);
});

test("more than may wait is kept at once", async () => {
  const some = new Uint8Array(2 ** 26);
  const put = async (/** @type {string} */ key) => void kept.set(key, some);
  const store = later({ put, get: async () => undefined, keys: async () => [...kept.keys()], delete: async () => {} }, 2000);
  for (const key of ["a", "b", "c"]) await store.put(key, some);
  assert.deepEqual([...kept.keys()], ["a"]);
});

test("a browser's own cache is left out where nothing of the bundle was kept, and only there", async () => {
  const asked = new Set();
  globalThis.fetch = (url, options) => {
    if (!String(url).endsWith("manifest.json")) asked.add(options.cache);
    return answer(url, options);
  };
  for (const [options, wanted] of /** @type {[object, string][]} */ ([[{}, "no-store"], [{ cache: false }, "no-cache"]])) {
    asked.clear();
    kept.clear();
    await visit(base, { ...OPTIONS, ...options });
    assert.deepEqual([...asked], [wanted]);
  }
  await visit();
  for (const key of kept.keys()) if (key.includes("/48-")) kept.delete(key);
  asked.clear();
  await visit();
  assert.deepEqual([...asked], ["no-cache"]);
});

test("a file of one piece gets over a cut too", async () => {
  cuts = [Infinity, Infinity, 90, 10, 60];
  await visit(base, { ...OPTIONS, piece_bytes: 2 ** 20 });
  assert.equal(cuts.length, 0);
});
