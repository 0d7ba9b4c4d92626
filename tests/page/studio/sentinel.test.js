import assert from "node:assert/strict";
import { test } from "node:test";
import { Sentinel } from "../../../resources/studio/measure/sentinel.js";
import { watchSurroundings } from "../../../resources/studio/surroundings.js";
import { int, kernel, load, plus, store } from "../wasm.js";
import { OwnClock } from "../clock.js";

/** No pointers: `run(begin, end)` adds to the same word again and again. */
const busy = kernel(0, () => store(int(16), plus(load(int(16)), load(int(16)))));

/** What an iteration takes; all that a kernel does is real. */
const ITERATION_MS = 1e-5;
const near = (value, expected) => assert.ok(Math.abs(value / expected - 1) < 1e-9, `${value}, not ${expected}`);

test("the sentinel's rate is work over time; the kernel is warmed up once", async (t) => {
  const clock = new OwnClock().timeKernels(t, ITERATION_MS);
  const sentinel = new Sentinel(clock.now);
  near((await sentinel.rate(busy, 2)).gflops, 0.2);
  assert.ok(clock.ms >= 30, "warming up takes its time");
  const before = clock.ms;
  near((await sentinel.rate(busy, 2)).gflops, 0.2);
  assert.ok(clock.ms - before >= 10 && clock.ms - before < 30, "five samples of 2 ms");
  near((await sentinel.rate(busy, 1)).throughput, 0.1);
});

test("what another program takes now and then is in the throughput, not in the median", async (t) => {
  const clock = new OwnClock().timeKernels(t, ITERATION_MS);
  const sentinel = new Sentinel(clock.now);
  await sentinel.rate(busy, 2);
  const spend = clock.spend;
  let calls = 0;
  clock.spend = (ms) => spend(ms * (calls++ === 1 ? 400 : 1));
  const { gflops, throughput } = await sentinel.rate(busy, 2);
  assert.ok(throughput < 0.9 * gflops, `${throughput} of ${gflops}`);
});

test("by a real clock the rate is a number", async () => {
  const sentinel = new Sentinel(() => performance.now());
  const rates = [(await sentinel.rate(busy, 2)).gflops, (await sentinel.rate(busy, 2)).throughput];
  assert.ok(rates.every((rate) => rate > 0 && Number.isFinite(rate)), String(rates));
});

test("the rate falls with the clock's speed", async (t) => {
  let slowness = 1;
  const clock = new OwnClock().timeKernels(t, ITERATION_MS);
  const spend = clock.spend;
  clock.spend = (ms) => spend(ms * slowness);
  const sentinel = new Sentinel(clock.now);
  const usual = (await sentinel.rate(busy, 2)).gflops;
  slowness = 20;
  near((await sentinel.rate(busy, 2)).gflops, usual / 20);
});

test("a pulse is long enough for a coarse clock, however long the first call seemed", async (t) => {
  let reads = 0;
  const clock = new OwnClock().timeKernels(t, ITERATION_MS);
  const sentinel = new Sentinel(() => {
    reads++; // the third ends the warm-up, the fifth the first call that is timed
    const lost = (reads >= 3 ? 30 : 0) + (reads >= 5 ? 50 : 0);
    return Math.floor((clock.ms + lost) * 10) / 10;
  });
  await sentinel.rate(busy, 2);
  const rates = [(await sentinel.rate(busy, 2)).gflops, (await sentinel.rate(busy, 2)).throughput];
  assert.ok(
    rates.every((rate) => rate > 0 && Number.isFinite(rate)),
    String(rates),
  );
});

test("what surrounds the page, as far as the browser tells", async () => {
  const page = { visibilityState: "visible" };
  const battery = { charging: true };
  const surroundings = watchSurroundings(page, { getBattery: () => Promise.resolve(battery) });
  assert.deepEqual(surroundings(), { hidden: false, on_battery: null });
  await Promise.resolve();
  assert.deepEqual(surroundings(), { hidden: false, on_battery: false });
  page.visibilityState = "hidden";
  battery.charging = false;
  assert.deepEqual(surroundings(), { hidden: true, on_battery: true });
  assert.deepEqual(watchSurroundings(page, {})(), { hidden: true, on_battery: null });
  const refused = watchSurroundings(page, { getBattery: () => Promise.reject(new Error("not allowed")) });
  await Promise.resolve();
  assert.equal(refused().on_battery, null);
});
