import assert from "node:assert/strict";
import { test } from "node:test";
import { KERNELS_PER_WORKER, Router } from "../../../resources/studio/router.js";
import { header } from "../wasm.js";

const policy = { pairs: 6, min_sample_ms: 5, min_quanta: 20, warmup_ms: 30, early_stop_ratio: 3, max_ms: 100 };
const blob = () => new Uint8Array(8);

/** A worker whose answers are given by `answer(call)`: a reply, "die" or "silence". */
class FakeWorker extends EventTarget {
  constructor(answer) {
    super();
    this.answer = answer;
    this.calls = [];
    this.ended = false;
  }
  postMessage(call) {
    this.calls.push(call.header.type);
    const reply = this.answer(call);
    if (reply === "silence") return;
    if (reply.header) reply.header = { ...reply.header, id: call.header.id };
    const event = reply === "die" ? Object.assign(new Event("error"), { message: "out of memory" }) : Object.assign(new Event("message"), { data: reply });
    setTimeout(() => this.dispatchEvent(event), 1);
  }
  terminate() {
    this.ended = true;
  }
}

function office(answer = () => ({ header: { type: "ok" }, blobs: [] })) {
  const sent = [];
  const workers = { engine: [], measurer: [] };
  const start = (kind) => () => {
    workers[kind].push(new FakeWorker(answer));
    return workers[kind].at(-1);
  };
  let id = 0;
  const router = new Router({ engine: start("engine"), measurer: start("measurer"), send: (h) => sent.push(h) });
  const ask = (h, blobs = []) => router.receive({ header: { id: ++id, ...h }, blobs });
  return { sent, workers, router, ask };
}
const load = { type: "load", plan: { name: "m" } };
const infer = { type: "infer", inputs: [], runs: 1, profile: false };
const fixture = { type: "fixture", workload: "add", args: [], outputs: [] };
const measure = { type: "measure", challenger: header("add", 1), incumbent: null, policy };

test("requests are worked off one after another, each reply with its id", async () => {
  let active = 0;
  const { ask, sent, workers } = office(() => {
    assert.equal(active++, 0);
    setTimeout(() => active--, 0);
    return { header: { type: "ok" }, blobs: [] };
  });
  await Promise.all([ask(load), ask(infer), ask(fixture), ask(measure, [blob()]), ask(infer)]);
  assert.deepEqual(sent.map((h) => h.id), [1, 2, 3, 4, 5]);
  assert.ok(sent.every((h) => h.type === "ok"));
  assert.deepEqual(workers.engine[0].calls, ["load", "infer", "infer"]);
  assert.deepEqual(workers.measurer[0].calls, ["fixture", "measure"]);
});

test("parts that came ahead become a blob of the next fixture, and of that alone", async () => {
  const got = [];
  const { ask, sent } = office((call) => {
    got.push(call.blobs.map((b) => [...b]));
    return { header: { type: "ok" }, blobs: [] };
  });
  await ask({ type: "ahead", blob: 1, nbytes: 3, offset: 0 }, [Uint8Array.of(1, 2)]);
  await ask({ type: "ahead", blob: 1, nbytes: 3, offset: 2 }, [Uint8Array.of(3)]);
  await ask(fixture, [Uint8Array.of(9), Uint8Array.of()]);
  await ask(fixture, [Uint8Array.of(9), Uint8Array.of()]);
  assert.deepEqual(got, [[[9], [1, 2, 3]], [[9], []]]);
  await ask({ type: "ahead", blob: 0, nbytes: 3, offset: 2 }, [Uint8Array.of(3)]);
  await ask({ type: "ahead", blob: 0, nbytes: 1, offset: 0 }, [Uint8Array.of(1, 2)]);
  assert.deepEqual(sent.slice(4).map((h) => h.type), ["error", "error"]);
});

test("a load starts a new engine worker and ends the old one", async () => {
  const { ask, workers } = office();
  await ask(load);
  await ask(load);
  assert.deepEqual(workers.engine.map((w) => w.ended), [true, false]);
});

test("the measuring worker is made anew after its kernels, with the fixture", async () => {
  const { ask, workers } = office();
  await ask(fixture);
  for (let i = 0; i <= KERNELS_PER_WORKER; i++) await ask(measure, [blob()]);
  assert.deepEqual(workers.measurer.map((w) => w.ended), [true, false]);
  assert.equal(workers.measurer[0].calls.length, 1 + KERNELS_PER_WORKER);
  assert.deepEqual(workers.measurer[1].calls, ["fixture", "measure"]);
});

test("a kernel that does not end is a failed measurement, and the page goes on", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let silent = true;
  const { ask, sent, workers } = office(({ header }) => (header.type === "measure" && silent ? "silence" : { header: { type: "ok" }, blobs: [] }));
  const settle = async (promise, ticks) => {
    for (let i = 0; i < 20; i++) {
      t.mock.timers.tick(ticks);
      await Promise.resolve();
      await new Promise((r) => setImmediate(r));
    }
    await promise;
  };
  await settle(ask(fixture), 1);
  await settle(ask(measure, [blob()]), 10_300);
  silent = false;
  await settle(ask(measure, [blob()]), 1);
  assert.deepEqual(sent.map((h) => h.type), ["ok", "measured", "ok"]);
  assert.match(sent[1].error, /did not end within 10.3 s/);
  assert.equal(sent[1].error_ratio, "inf");
  assert.deepEqual(workers.measurer.map((w) => w.ended), [true, false]);
});

test("a first run that hangs where others took milliseconds costs two seconds", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  /** @type {"answer" | "hang" | "hang later"} */
  let how = "answer";
  const { ask, sent, workers } = office((call) => {
    if (call.header.type !== "measure") return { header: { type: "ok" }, blobs: [] };
    if (how === "answer") return { header: { type: "measured", samples_ms: [1.5, 2], incumbent_ms: [] }, blobs: [] };
    const checked = Object.assign(new Event("message"), { data: { header: { type: "checked", of: call.header.id } } });
    if (how === "hang later") setTimeout(() => workers.measurer.at(-1).dispatchEvent(checked), 1);
    return "silence";
  });
  const settle = async (promise, ticks) => {
    for (const ms of ticks) {
      for (let i = 0; i < 20; i++) await new Promise((r) => setImmediate(r));
      t.mock.timers.tick(ms);
    }
    for (let i = 0; i < 20; i++) await new Promise((r) => setImmediate(r));
    await promise;
  };
  await settle(ask(fixture), [1]);
  await settle(ask(measure, [blob()]), [1]);
  how = "hang";
  await settle(ask(measure, [blob()]), [1999, 1]);
  assert.match(sent[2].error, /first run did not end within 2 s/);
  how = "hang later";
  const later = ask(measure, [blob()]);
  await settle(Promise.resolve(), [1, 1, 10_000]); // the fixture of the new worker, the sign of life
  assert.equal(sent.length, 3);
  await settle(later, [300]);
  assert.match(sent[3].error, /did not end within 10.3 s/);
});

test("a dead engine worker is an error; the next load starts another", async () => {
  let dead = true;
  const { ask, sent, workers } = office(({ header }) => (header.type === "infer" && dead ? "die" : { header: { type: "ok" }, blobs: [] }));
  await ask(load);
  await ask(infer);
  await ask(infer);
  dead = false;
  await ask(load);
  await ask(infer);
  assert.deepEqual(sent.map((h) => h.type), ["ok", "error", "error", "ok", "ok"]);
  assert.match(sent[1].error, /worker of the page died: out of memory/);
  assert.match(sent[2].error, /No model is loaded/);
  assert.equal(workers.engine.length, 2);
});

test("a fixture that the worker refuses is not kept", async () => {
  const { ask, sent, workers } = office(({ header }) => ({ header: header.type === "fixture" ? { type: "error", error: "bad", hint: "" } : { type: "ok" }, blobs: [] }));
  await ask(fixture);
  await ask(measure, [blob()]);
  assert.equal(sent[0].type, "error");
  assert.deepEqual(workers.measurer[0].calls, ["fixture", "measure"]);
});

test("malformed requests are answered by an error that names the field", async () => {
  const { ask, sent, workers } = office();
  const cases = [
    [{ type: "sing" }, [], /no answer to "sing"/],
    [{ type: "load" }, [], /"plan" \(object\)/],
    [{ type: "weights", offset: 0 }, [], /needs 1 blobs and carries 0/],
    [{ ...infer, inputs: [{ name: "x", dtype: "f32", shape: [-1] }] }, [blob()], /input 0" needs the field "shape"/],
    [{ ...measure, policy: { ...policy, pairs: undefined } }, [blob()], /measure, policy" needs the field "pairs"/],
    [{ ...measure, incumbent: header("add", 1) }, [blob()], /needs 2 blobs/],
    [{ ...fixture, args: [{ role: "input", dtype: "f32", nbytes: 4, pack: null, blob: 3 }] }, [], /names blob 3/],
    [{ type: "register", kernels: [{ workload: "add" }] }, [blob()], /kernel 0" needs the field "settings"/],
    [{ type: "load", id: "7", plan: {} }, [], /has no id/],
  ];
  for (const [request, blobs, message] of cases) {
    await ask(request, blobs);
    assert.equal(sent.at(-1).type, "error");
    assert.match(sent.at(-1).error, message);
  }
  assert.equal(workers.engine.length + workers.measurer.length, 0);
});

test("more pairs of a challenger are no further kernel of the measuring worker", async () => {
  const { ask, workers } = office();
  await ask(fixture);
  const of = (sha256) => ({ ...measure, challenger: { ...measure.challenger, sha256 } });
  for (let i = 0; i < 3 * KERNELS_PER_WORKER; i++) await ask(of("a"), [blob()]);
  assert.equal(workers.measurer.length, 1);
  for (let i = 0; i < KERNELS_PER_WORKER; i++) await ask(of(`${i}`), [blob()]);
  assert.equal(workers.measurer.length, 2);
});

test("a pulse is taken in the measuring worker and says what surrounds the page", async () => {
  const { ask, sent, workers, router } = office(() => ({ header: { type: "pulsed", gflops: 50 }, blobs: [] }));
  router.place.surroundings = () => ({ hidden: true, on_battery: null });
  await ask(fixture);
  await ask({ type: "pulse", flops_per_iteration: 2 }, [blob()]);
  const { type, gflops, hidden, on_battery } = sent.at(-1);
  assert.deepEqual([type, gflops, hidden, on_battery], ["pulsed", 50, true, null]);
  assert.deepEqual(workers.measurer.map((w) => w.calls.filter((name) => name !== "gate")), [["fixture", "pulse"]]);
  await ask({ type: "pulse", flops_per_iteration: 2 });
  assert.equal(sent.at(-1).type, "error");
});

test("a probe has a worker of its own that ends with it", async () => {
  const { ask, workers } = office();
  await ask({ type: "probe", peak: [] });
  assert.deepEqual(workers.measurer.map((w) => w.ended), [true]);
});

test("a reply that cannot be sent does not hold up the next request", async () => {
  const { router, sent } = office();
  const send = router.place.send;
  router.place.send = () => {
    throw new Error("the socket is gone");
  };
  await assert.rejects(router.receive({ header: { id: 1, ...load }, blobs: [] }), /socket is gone/);
  router.place.send = send;
  await router.receive({ header: { id: 2, ...infer }, blobs: [] });
  assert.deepEqual(sent.map((h) => [h.id, h.type]), [[2, "ok"]]);
});

test("after close the workers are ended and nothing is sent", async () => {
  const { ask, sent, workers, router } = office();
  await ask(load);
  router.close();
  await ask(infer);
  assert.equal(sent.length, 1);
  assert.equal(workers.engine[0].ended, true);
});

test("tokens go to the hub as they come, a stop does not wait for their end", async () => {
  const generate = { type: "generate", facts: {}, ids: [1], max_tokens: 2, top_k: 1, top_p: 1, repetition_penalty: 1, temperature: 1, seed: 0, stop_tokens: [] };
  let worker;
  let running;
  const { ask, sent, workers } = office((call) => {
    worker = workers.engine[0];
    const say = (data) => worker.dispatchEvent(Object.assign(new Event("message"), { data }));
    if (call.header.type === "generate") {
      running = call.header.id;
      setTimeout(() => say({ header: { type: "token", of: running, token: 5 } }), 1);
      return "silence";
    }
    if (call.header.type === "generate_stop")
      setTimeout(() => say({ header: { type: "generated", id: running, made: 1, reason: "cancelled" } }), 2);
    return { header: { type: "ok" }, blobs: [] };
  });
  await ask(load);
  const text = ask(generate);
  const later = ask(infer);
  while (sent.length < 2) await new Promise((r) => setTimeout(r, 1));
  assert.deepEqual(sent.slice(1).map((h) => [h.type, h.of]), [["token", 2]]);
  await ask({ type: "generate_stop" });
  await Promise.all([text, later]);
  const order = sent.slice(2).map((h) => h.id);
  assert.deepEqual(order.toSorted(), [2, 3, 4]);
  assert.ok(order.indexOf(2) < order.indexOf(3), "the next request has its turn behind the text");
  await assert.doesNotReject(ask({ ...generate, ids: 3 }));
  assert.match(sent.at(-1).error, /needs the field "ids"/);
});

test("a load that does not end is an error, and its worker is ended", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { ask, sent, workers } = office(() => "silence");
  const asked = ask(load);
  for (let i = 0; i < 5; i++) {
    await new Promise((r) => setImmediate(r));
    t.mock.timers.tick(60_000);
  }
  await asked;
  assert.equal(sent[0].type, "error");
  assert.match(sent[0].error, /"load" did not end within 110 s/);
  assert.equal(workers.engine[0].ended, true);
});

test("serving without shared memory, or without a model, is refused", async () => {
  const { ask, sent } = office();
  const serve = { type: "serve", inputs: [], interval_ms: 0, budget: 0.05 };
  await ask(load);
  await ask(serve);
  assert.match(sent.at(-1).error, /needs shared memory/);
  await ask({ type: "served" });
  assert.match(sent.at(-1).error, /is not serving/);
  await ask({ type: "served", budget: -1 });
  assert.match(sent.at(-1).error, /"served" needs a budget of at least 0/);
  await ask({ type: "serve_stop" });
  assert.equal(sent.at(-1).type, "ok");
  await ask({ ...serve, budget: -1 });
  assert.match(sent.at(-1).error, /budget of at least 0/);
});

test("serving and a measurement do not wait for each other", async () => {
  Object.assign(globalThis, { crossOriginIsolated: true });
  globalThis.navigator ??= /** @type {any} */ ({ hardwareConcurrency: 2 });
  const { ask, sent, router, workers } = office(({ header }) => (header.type === "measure" ? "silence" : { header: { type: "ok" }, blobs: [] }));
  try {
    await ask(load);
    await ask({ type: "serve", inputs: [], interval_ms: 0, budget: 0.05 });
    await ask(fixture);
    const measured = ask(measure, [blob()]); // stays at the gate
    let inferences = 0;
    while (inferences <= 3) {
      await new Promise((r) => setTimeout(r, 1));
      await ask({ type: "served", budget: 0.2 });
      const { latencies_ms, generations, touched } = sent.at(-1);
      assert.ok(generations.every((g) => g === 0) && touched.length === latencies_ms.length);
      inferences += latencies_ms.length;
    }
    const types = sent.map((h) => h.type);
    assert.deepEqual(types.slice(0, 3), ["ok", "ok", "ok"]);
    assert.deepEqual(new Set(types.slice(3)), new Set(["served"]));
    await ask({ type: "serve_stop" });
    workers.measurer[0].dispatchEvent(Object.assign(new Event("error"), { message: "gone" }));
    await measured;
  } finally {
    router.close();
    Object.assign(globalThis, { crossOriginIsolated: undefined });
  }
});

test("a kernel that costs the GPU twice is refused; once is an accident", async () => {
  let losses = 1;
  const { ask, sent, workers } = office(({ header: { type } }) => {
    if (type !== "measure" || losses-- <= 0) return { header: { type: type === "measure" ? "measured" : "ok" }, blobs: [] };
    return { header: { type: "error", error: "The GPU device was lost.", hint: "", code: "gpu-lost" }, blobs: [] };
  });
  const onGpu = { ...fixture, backend: "webgpu", implementation: "navigator" };
  const bad = { ...measure, challenger: { ...header("add", 1), sha256: "bad" } };
  await ask(onGpu);
  await ask(bad, [blob()]);
  assert.equal(sent.at(-1).type, "measured");
  assert.deepEqual(workers.measurer.map((w) => w.calls), [["fixture", "measure"], ["fixture", "measure"]]);
  losses = 2;
  await ask(bad, [blob()]);
  assert.match(sent.at(-1).error, /The kernel is refused: The GPU device was lost/);
  assert.deepEqual(sent.at(-1).samples_ms, []);
  const workers_before = workers.measurer.length;
  await ask(bad, [blob()]);
  assert.match(sent.at(-1).error, /is refused/);
  assert.equal(workers.measurer.length, workers_before);
  await ask({ ...bad, challenger: { ...bad.challenger, sha256: "good" } }, [blob()]);
  assert.equal(sent.at(-1).error, undefined);
});

test("a worker is told where the bridge is; unknown backends are refused", async () => {
  const calls = [];
  const { ask, sent, router } = office((call) => {
    calls.push(call.header);
    return { header: { type: "ok" }, blobs: [] };
  });
  router.place.bridge = "ws://here/gpu";
  await ask({ ...load, backend: "webgpu", implementation: "bridge" });
  await ask({ ...load, backend: "webgpu", implementation: "navigator" });
  await ask({ type: "gpu_probe", implementation: "bridge", flops: 0 });
  assert.deepEqual(calls.map((h) => h.bridge), ["ws://here/gpu", undefined, "ws://here/gpu"]);
  for (const wrong of [{ ...load, backend: "cuda" }, { ...load, implementation: "dawn" }, { type: "gpu_probe", flops: 0 }]) {
    await ask(wrong);
    assert.match(sent.at(-1).error, /needs the field/);
  }
});
