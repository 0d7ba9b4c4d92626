import assert from "node:assert/strict";
import { test } from "node:test";
import { notice } from "../../../resources/engine/gpu/native/notice.js";

/** A clock that goes on by a hundredth of a ms with each look. */
function clock() {
  let ms = 0;
  return () => (ms += 0.01);
}

test("the GPU process is asked ten times a ms at most, however often the page has its turn", async () => {
  const now = clock();
  const asked = [];
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const poke = () => {
    asked.push(now());
    if (asked.length === 20) finish("done");
    return true;
  };
  assert.equal(await notice(finished, poke, now), "done");
  assert.equal(asked.length, 20, "nothing is asked once it is over");
  const gaps = asked.slice(1).map((at, i) => at - asked[i]);
  assert.ok(Math.min(...gaps) >= 0.1, `${gaps}`);
  assert.ok(Math.max(...gaps) < 0.2, `${gaps}`);
});

test("a wait that nobody hurries ends with what it waits for, and a refusal is told", async () => {
  let asked = 0;
  const late = new Promise((resolve) => setTimeout(() => resolve(7), 5));
  assert.equal(await notice(late, () => (asked++, false)), 7);
  assert.equal(asked, 1, "who says no is not asked again");
  await assert.rejects(notice(Promise.reject(new Error("lost")), () => true), /lost/);
});
