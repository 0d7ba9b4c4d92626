/** The parts of tuning in a page: a session that tunes, its worker, what it remembers, what it sends. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { EngineError } from "../../../resources/engine/errors.js";
import { InferenceSession, Tensor } from "../../../resources/sdk/session.js";
import { TrialBench } from "../../../resources/sdk/tuning/bench.js";
import { LOOKS, settled, speedupOf } from "../../../resources/sdk/tuning/interval.js";
import { browserOf, nothing, readKnown } from "../../../resources/sdk/tuning/memory.js";
import { share, termsOf } from "../../../resources/sdk/tuning/moments.js";
import { WorkerTrials } from "../../../resources/sdk/tuning/trials.js";
import { base, entry, expected, K, N, tinyBundle } from "../tiny_bundle.js";
import { WebWorker } from "../web_worker.js";
import { addKernel, doubleKernel, f32, header, kernel, rowAddKernel } from "../wasm.js";

const spin = kernel(3, () => [0x03, 0x40, 0x0c, 0, 0x0b]); // a loop without an end
const arg = (role, count, pack = null) => ({ role, dtype: "f32", nbytes: count * 4, pack, low: -1, high: 1 });
const trial = { workload: "add", args: [arg("input", 8), arg("input", 8), arg("output", 8)], tolerance: 1e-6 };
const policy = { pairs: 2, min_sample_ms: 0.01, min_quanta: 1, warmup_ms: 1, early_stop_ratio: 100, max_ms: 20 };
const one = (bytes, extent = 8, sha256 = String(bytes.length) + extent) => ({ header: { ...header("add", extent), sha256 }, bytes });

/** A tiny bundle with a right and a wrong candidate; `share` is the address it allows. */
function withCandidates(share = "") {
  return tinyBundle({
    change(manifest, files) {
      const row = rowAddKernel(K, N, 0);
      Object.assign(files, { "kernels/c.wasm": row, "kernels/d.wasm": doubleKernel });
      const of = (workload, settings, file) => ({ workload, settings, panels: [], parallel_extent: K * N, tiers: { simd128: entry(file, files[file]) } });
      const args = [arg("input", K), arg("input", K * 16, [K, N]), arg("output", K * N)];
      const trials = [{ workload: "rowadd", args, tolerance: 1e-6 }, { ...trial, args: trial.args.map((a) => ({ ...a, nbytes: K * N * 4 })) }];
      manifest.candidates = { kernels: [of("rowadd", "rows", "kernels/c.wasm"), of("add", "wrong", "kernels/d.wasm")], trials, share };
    },
  });
}

/** @param {import("node:test").TestContext} t */
function host(t, files) {
  const posted = [];
  t.mock.method(globalThis, "fetch", async (url, options) => {
    if (options?.method === "POST") return posted.push({ url: String(url), ...options }), new Response("");
    const name = String(url).slice(new URL(".", base).href.length);
    return new Response(files[name] ?? null, { status: files[name] ? 200 : 404 });
  });
  return posted;
}

async function ends(t) {
  globalThis.Worker = WebWorker;
  t.after(async () => {
    await Promise.all([...WebWorker.running].map((w) => (w.terminate(), w.ended)));
    delete globalThis.Worker;
  });
}

const feeds = () => ({ x: new Tensor("float32", [10, 20, 30], [K]) });

test("a session tunes in a worker, refuses what is wrong, and its answers stay right", async (t) => {
  await ends(t);
  const posted = host(t, withCandidates("https://times.example/nnjit"));
  const session = await InferenceSession.create(base);
  assert.equal(session.tuningReport(), null);
  const done = session.tune({ when: "now", budgetMs: 10_000, share: "https://times.example/nnjit" });
  let ended = false;
  done.finally(() => (ended = true));
  while (!ended) {
    const { y } = await session.run(feeds());
    assert.deepEqual([...y.data], expected);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
  const report = await done;
  assert.equal(report.state, "done");
  const wrong = report.tried.find(({ settings }) => settings === "wrong");
  assert.equal(wrong.outcome, "wrong", JSON.stringify(report.tried));
  assert.equal(report.kernels.add, "default");
  assert.doesNotThrow(() => structuredClone(report));
  assert.deepEqual(session.tuningReport().tried, report.tried);
  const [{ url, body, credentials, referrerPolicy }] = posted;
  assert.deepEqual([url, credentials, referrerPolicy, report.shared], ["https://times.example/nnjit", "omit", "no-referrer", url]);
  assert.deepEqual(Object.keys(JSON.parse(body)), ["bundle", "tier", "results"]);
  for (const result of JSON.parse(body).results) assert.deepEqual(Object.keys(result), ["candidate", "settings", "outcome", "ms", "incumbent_ms"]);
  assert.ok(!/rowadd|tiny|static\.example/.test(body), body);
  await session.release();
});

test("nothing is tuned, fetched or sent unless the page asks, and the bundle allows it", async (t) => {
  await ends(t);
  const posted = host(t, withCandidates());
  const session = await InferenceSession.create(base);
  await session.run(feeds());
  assert.equal(WebWorker.running.size + posted.length, 0);
  await assert.rejects(session.tune({ share: "https://times.example/nnjit" }), /does not allow/);
  host(t, tinyBundle());
  await assert.rejects((await InferenceSession.create(base)).tune(), /no kernels to try/);
});

test("terms are checked", () => {
  assert.deepEqual(termsOf({}, "https://a.example/"), { budget_ms: 2000, when: "idle", limit: 1.05, share: "", queue: "" });
  for (const [options, allowed] of [[{ budgetMs: 0 }], [{ when: "always" }], [{ p95: 0.5 }], [{ share: "https://b.example/" }, "https://a.example/"], [{ queue: "http://a.example/" }], [{ queue: "https://a.example/?x" }], [{ queue: "a.example" }], [{ queue: "https://me:x@a.example" }]])
    assert.throws(() => termsOf(options, allowed ?? ""), EngineError);
  assert.equal(termsOf({ queue: "https://a.example/nnjit" }, "").queue, "https://a.example/nnjit/");
  assert.equal(termsOf({ queue: new URL("http://127.0.0.1:8500") }, "").queue, "http://127.0.0.1:8500/");
});

test("what times are sent with tells nothing of the visitor, and a server that is gone harms nothing", async (t) => {
  t.mock.method(globalThis, "fetch", async () => {
    throw new TypeError("gone");
  });
  await share("https://times.example/", { bundle: "", tier: "simd128", results: [] });
});

test("the bundle's own kernel says what is right, on random memory", async () => {
  const bench = new TrialBench();
  await bench.answer({ trial, own: one(addKernel) });
  const judge = async (challenger) => /** @type {any} */ (await bench.answer({ challenger, incumbent: one(addKernel), policy }));
  const right = await judge(one(addKernel, 8, "other"));
  assert.deepEqual([right.error, right.error_ratio, right.guard_ok], ["", 0, true]);
  assert.ok((await judge(one(doubleKernel))).error_ratio > 1);
  assert.equal((await judge(one(addKernel, 7))).error_ratio, "inf"); // an element is missing
  assert.equal((await judge(one(addKernel, 9))).guard_ok, false); // one too many
  assert.match((await judge(one(new Uint8Array(8)))).error, /not valid/);
});

test("a kernel that does not end costs its worker, and no more", async (t) => {
  await ends(t);
  const trials = new WorkerTrials(400);
  await assert.rejects(async () => {
    await trials.answer({ trial, own: one(spin) });
  }, /did not come back/);
  const patient = new WorkerTrials(60_000);
  assert.equal(await patient.answer({ trial, own: one(addKernel) }), null);
  const waiting = patient.answer({ trial, own: one(spin) });
  patient.close();
  await assert.rejects(waiting, /stopped/);
});

test("pairs settle a comparison when they agree, and not before", () => {
  const pairs = (speedup, noise, n) => speedupOf(Array.from({ length: n }, (_, i) => 1 + (i % 2 ? noise : -noise)), Array(n).fill(speedup));
  assert.equal(settled(pairs(2, 0.001, 2), 1.03), "faster");
  assert.equal(settled(pairs(0.5, 0.001, 2), 1.03), "slower");
  assert.equal(settled(pairs(1.1, 0.1, 2), 1.03), "");
  assert.equal(settled(pairs(1.02, 0.001, 16), 1.03), "not told apart");
  assert.equal(settled(pairs(1.1, 0.3, LOOKS.at(-1)), 1.03), "not told apart");
  assert.ok(pairs(2, 0, 2).low < pairs(2, 0, 2).speedup, "two equal pairs are luck");
});

test("what a page stored is read only in its form", () => {
  const known = { ...nothing(), won: { a: "s" }, trial: { workload: "b", settings: "s", gain: [1, 1, 1] } };
  assert.deepEqual(readKnown(structuredClone(known)), known);
  for (const bad of [undefined, null, 3, {}, { ...known, won: { a: 1 } }, { ...known, gain: [1] }, { ...known, visits: "x" }, { ...known, tried: { a: 3 } }, { ...known, trial: { gain: 1 } }, { ...known, asked: { a: 1 } }, { ...known, asked: 3 }, { ...known, served: {} }])
    assert.deepEqual(readKnown(bad), nothing(), JSON.stringify(bad));
  assert.equal(browserOf("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"), "Firefox 128");
  assert.equal(browserOf("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/130.0.0.0 Safari/537.36"), "Chrome 130");
});
