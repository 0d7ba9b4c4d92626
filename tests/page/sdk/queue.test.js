/** A page that tunes with the kernels of a compile service: a right one, and every kind of wrong one. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { Queue, remembered } from "../../../resources/sdk/tuning/queue.js";
import { OwnClock } from "../clock.js";
import { bundleOf, Device } from "../visits.js";
import { addKernel } from "../wasm.js";

const FROM = "https://queue.example/";
const LOTS = { w: { "simd128/16": ["0".repeat(64)] } };
const digest = (bytes) => createHash("sha256").update(bytes).digest("hex");

const line = ({ settings, sha256, panels, parallel_extent: extent }) => `${settings} ${sha256} ${panels.map((p) => p.join(":"))} ${extent}`;

/** A bundle whose candidates a service has in its place, all of a workload in one lot. */
function world(t, shapes) {
  const bundle = bundleOf(shapes);
  const { candidates } = bundle.manifest;
  const offered = candidates.kernels.map(({ tiers, ...header }) => {
    const bytes = bundle.files.get(tiers.simd128.file);
    return { header: { ...header, tier: "simd128", sha256: digest(bytes) }, bytes };
  });
  const device = new Device(t, new OwnClock(0.001), bundle, 7);
  const all = { ...bundle.manifest, candidates: { ...candidates } };
  device.truth = ((truth) => (settings) => truth.call({ bundle: { ...bundle, manifest: all } }, settings))(device.truth);
  candidates.kernels = [];
  candidates.lots = {};
  for (const { header } of offered) candidates.lots[header.workload] ??= { "simd128/16": [digest(offered.filter((o) => o.header.workload === header.workload).map((o) => line(o.header)).join("\n"))] };
  const asked = [];
  const service = {
    asked,
    /** Of a question and its answer @type {(answer: any, path: string) => any} */ lie: (answer) => answer,
    answer({ pathname, searchParams }) {
      if (pathname.startsWith("/compiled/")) return offered.find(({ header }) => pathname.includes(header.sha256))?.bytes;
      const after = Number(searchParams.get("after"));
      const known = offered.filter(({ header }) => header.workload === searchParams.get("workload"));
      const kernels = known.slice(after, after + 8).map(({ header }) => header);
      return { workload: searchParams.get("workload"), tier: "simd128", candidates: known.length, after: after + kernels.length, kernels };
    },
  };
  const files = globalThis.fetch;
  t.mock.method(globalThis, "fetch", async (url, options) => {
    const { origin, pathname } = new URL(url);
    if (`${origin}/` !== FROM) return files(url, options);
    asked.push({ url: String(url), ...options });
    const answer = await service.lie(service.answer(new URL(url)), pathname);
    if (answer instanceof Response) return answer;
    return new Response(answer instanceof Uint8Array ? answer : JSON.stringify(answer));
  });
  return { device, service, offered };
}

/** The bundle's own, then what the service has: slower, much faster, a little faster; and one product more. */
const SHAPES = [
  [{ alone: 1 }, { alone: 1.3 }, { alone: 0.5 }, { alone: 0.8 }],
  [{ alone: 0.4 }, { alone: 0.2 }],
];
const VISIT = { inferences: 400, options: { queue: FROM } };

test("a page tunes with the kernels of a service, and keeps the winners when it is gone", async (t) => {
  const { device, service } = world(t, SHAPES);
  const { tuning, wrong } = await device.visit(VISIT);
  const report = tuning.report();
  assert.equal(wrong, 0);
  assert.equal(report.state, "done");
  assert.deepEqual(report.kernels, { w0: "s2", w1: "s1" }, JSON.stringify(report.tried));
  assert.deepEqual(report.queue, { from: FROM, kernels: 4, problem: "" });
  for (const { url, credentials, referrerPolicy, redirect, method, body } of service.asked) {
    assert.deepEqual([credentials, referrerPolicy, redirect, method, body], ["omit", "no-referrer", "error", undefined, undefined]);
    assert.match(url, /\/(candidates\?workload=w[01]&tier=simd128&registers=16&l1=32768&l2=524288&after=\d|compiled\/[0-9a-f]{64}\.wasm)$/);
  }
  service.asked.length = 0;
  service.lie = () => new Response("", { status: 502 });
  const second = (await device.visit({ ...VISIT, inferences: 20 })).tuning.report();
  assert.deepEqual(second.kernels, report.kernels, "the winners run at once");
  assert.equal(service.asked.length, 0, "all was asked for before");
  const without = (await device.visit({ inferences: 20 })).tuning.report();
  assert.deepEqual(without.kernels, { w0: "s0", w1: "s0" }, "who takes the address away takes its kernels away");
  assert.deepEqual([without.queue, service.asked.length], [null, 0]);
});

const flipped = (bytes) => Uint8Array.from(bytes, (b, i) => (i === bytes.length - 1 ? b ^ 1 : b));
const told = (change) => (answer, path) => (path === "/candidates" ? { ...answer, kernels: answer.kernels.map((k) => ({ ...k, ...change })) } : answer);
const LIES = {
  "other bytes": (answer, path) => (path === "/candidates" ? answer : flipped(answer)),
  "the wrong size": (answer, path) => (path === "/candidates" ? answer : new Uint8Array(2 ** 20 + 1)),
  "too long an answer": (answer, path) => (path === "/candidates" ? new Uint8Array(2 ** 16 + 1) : answer),
  "no JSON": () => new Response("<html>"),
  "nothing": () => null,
  "another workload": told({ workload: "w9" }),
  "another tier": told({ tier: "relaxed-simd" }),
  "no hash": told({ sha256: "../../secret" }),
  "panels that are none": told({ panels: [[0, 1e9]] }),
  "an extent that is none": told({ parallel_extent: -1 }),
  "no progress": (answer, path) => (path === "/candidates" ? { ...answer, after: -1 } : answer),
  "too many": (answer, path) => (path === "/candidates" ? { ...answer, kernels: Array(9).fill(answer.kernels[0]) } : answer),
  "other kernels, and right ones": (answer, path) => (path === "/candidates" ? { ...answer, kernels: answer.kernels.slice(1).concat(answer.kernels.slice(0, 1)) } : answer),
  "another extent": told({ parallel_extent: 1 }),
  "a part of a lot": (answer, path) => (path === "/candidates" ? { ...answer, kernels: answer.kernels.slice(1) } : answer),
  "an error": () => new Response("", { status: 500 }),
  "come again later": () => new Response("{}", { status: 429 }),
  "no connection": () => Promise.reject(new TypeError("gone")),
};

test("a service that is wrong in any way is asked once and changes nothing", async (t) => {
  for (const [name, lie] of Object.entries(LIES)) {
    const { device, service } = world(t, SHAPES);
    service.lie = lie;
    const { tuning, wrong } = await device.visit({ ...VISIT, inferences: 40 });
    const report = tuning.report();
    assert.deepEqual(report.kernels, { w0: "s0", w1: "s0" }, name);
    assert.equal(wrong, 0, name);
    assert.match(report.queue.problem, /^https:\/\/queue\.example\/ .+\.$/, name);
    assert.equal(report.state, "done", name);
    assert.ok(service.asked.filter(({ url }) => url.includes("candidates")).length === 1, name);
    t.mock.restoreAll();
  }
});

test("a wrong kernel with a right hash does not pass the gate, nor does the next of that server", async (t) => {
  for (const body of ["wrong", "short", "long", "trap", "swapped"]) {
    const { device } = world(t, [[{ alone: 1 }, { alone: 0.1, body }, { alone: 0.5 }]]);
    const { tuning, wrong } = await device.visit(VISIT);
    const { kernels, queue, tried } = tuning.report();
    assert.equal(wrong, 0, body);
    assert.ok(["wrong", "failed"].includes(tried[0].outcome), `${body}: ${tried[0].outcome}`);
    if (tried[0].outcome === "wrong") assert.deepEqual([kernels.w0, queue.problem], ["s0", `${FROM} gave a kernel that is wrong.`], body);
    t.mock.restoreAll();
  }
});

test("a kernel that is right in the worker and wrong in the model is found before it runs", async (t) => {
  const { device } = world(t, [[{ alone: 1 }, { alone: 0.3, body: "sly" }]]);
  const { tuning, wrong } = await device.visit(VISIT);
  const [{ outcome, isolated }] = tuning.report().tried;
  assert.ok(isolated.speedup > 2);
  assert.deepEqual([outcome, wrong, tuning.report().queue.problem], ["wrong", 0, `${FROM} gave a kernel that is wrong.`]);
});

test("a kernel that is promised fast and is slow, alone or in use, does not stay", async (t) => {
  const { device } = world(t, [[{ alone: 1 }, { alone: 0.5, placed: 1.4 }, { alone: 0.5, placed: 0.6, used: 1.5 }]]);
  const { tuning } = await device.visit(VISIT);
  assert.equal(tuning.report().kernels.w0, "s0", JSON.stringify(tuning.report().tried));
});

test("a workload that the service does not know is left out, and the others are not", async (t) => {
  const { device, service } = world(t, SHAPES);
  service.lie = (answer) => (answer.workload === "w0" ? new Response("{}", { status: 400 }) : answer);
  const { kernels, queue } = (await device.visit(VISIT)).tuning.report();
  assert.deepEqual([kernels, queue.problem], [{ w0: "s0", w1: "s1" }, ""]);
});

test("a bundle that lists nothing asks nobody", async (t) => {
  const { device, service } = world(t, SHAPES);
  delete device.bundle.manifest.candidates.lots;
  const { kernels, state } = (await device.visit(VISIT)).tuning.report();
  assert.deepEqual([kernels, state, service.asked.length], [{ w0: "s0", w1: "s0" }, "done", 0]);
});

test("a service that does not answer is waited for once, and a page that leaves does not wait", async (t) => {
  const never = (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new TypeError("aborted"))));
  t.mock.method(globalThis, "fetch", never);
  const queue = new Queue(FROM, "simd128", LOTS, 5);
  assert.equal(await queue.next("w", 0, () => true), null);
  assert.match(queue.problem, /did not answer/);
  const patient = new Queue(FROM, "simd128", LOTS, 1e6);
  const waiting = patient.next("w", 0, () => true);
  patient.close();
  assert.equal(await waiting, null);
});

test("kernels of former visits are believed by their hash, and from the same address alone", async () => {
  const header = { workload: "w", settings: "s", tier: "simd128", sha256: digest(addKernel), panels: [], parallel_extent: 1 };
  const kept = { from: FROM, header, bytes: addKernel };
  assert.equal((await remembered([kept], FROM)).length, 1);
  for (const bad of [null, 3, [3], [null], [{ ...kept, bytes: flipped(addKernel) }], [{ ...kept, bytes: "x" }], [{ ...kept, header: { ...header, panels: 1 } }]])
    assert.deepEqual(await remembered(bad, FROM), []);
  assert.deepEqual(await remembered([kept], "https://other.example/"), []);
  assert.deepEqual(await remembered([kept], ""), []);
});
