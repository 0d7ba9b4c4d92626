import assert from "node:assert/strict";
import { test } from "node:test";
import { Sentinel } from "../../../resources/studio/measure/sentinel.js";
import { watchSurroundings } from "../../../resources/studio/surroundings.js";
import { int, kernel, load, plus, store } from "../wasm.js";

/** No pointers: `run(begin, end)` adds to the same word again and again. */
const busy = kernel(0, () => store(int(16), plus(load(int(16)), load(int(16)))));

test("the sentinel's rate is work over time; the kernel is warmed up once", async () => {
  const sentinel = new Sentinel(() => performance.now());
  const first = performance.now();
  const one = await sentinel.rate(busy, 2);
  const second = performance.now();
  const two = await sentinel.rate(busy, 2);
  const third = performance.now();
  assert.ok(one > 0 && two > 0 && Number.isFinite(one + two));
  assert.ok(second - first >= 30, "warming up takes its time");
  assert.ok(third - second >= 5, "five samples of at least 1 ms");
  const half = await sentinel.rate(busy, 1);
  assert.ok(half < two, "half the work of an iteration in the same time");
});

test("the rate falls with the clock's speed", async () => {
  let slowness = 1;
  let t = 0;
  let last = performance.now();
  const sentinel = new Sentinel(() => {
    const now = performance.now();
    t += (now - last) * slowness;
    last = now;
    return t;
  });
  const usual = await sentinel.rate(busy, 2);
  slowness = 20;
  assert.ok((await sentinel.rate(busy, 2)) < usual / 3);
});

test("a pulse is long enough for a coarse clock, however long the first call seemed", async () => {
  let reads = 0;
  const sentinel = new Sentinel(() => {
    reads++; // the third ends the warm-up, the fifth the first call that is timed
    const lost = (reads >= 3 ? 30 : 0) + (reads >= 5 ? 50 : 0);
    return Math.floor((performance.now() + lost) * 10) / 10;
  });
  await sentinel.rate(busy, 2);
  const rates = [await sentinel.rate(busy, 2), await sentinel.rate(busy, 2)];
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
