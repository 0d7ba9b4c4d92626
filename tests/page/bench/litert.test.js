import assert from "node:assert/strict";
import { test } from "node:test";
import { callOn, pairs } from "../../../resources/bench/litert.js";

const detail = (name, ...shape) => ({ name, shape: Int32Array.from(shape), dtype: "int32" });
const port = (name, ...dims) => ({ name, dims });

test("ports of a .tflite file are found by the converter's names, else by sizes", () => {
  const details = [detail("serving_default_mask:0", 1, 8), detail("serving_default_ids:0", 1, 8), detail("third", 1, 2)];
  assert.deepEqual(pairs(details, [port("ids", 1, 8), port("mask", 1, 8), port("x", 1, 2)], "input"), [1, 0, 2]);
});

test("two ports of one size are two places", () => {
  assert.deepEqual(pairs([detail("a", 4), detail("b", 4)], [port("x", 4), port("y", 4)], "output"), [0, 1]);
});

test("a layout that is not the model's is refused in a sentence", () => {
  assert.throws(() => pairs([detail("image", 1, 8, 8, 3)], [port("image", 1, 3, 8, 8)], "input"), /no input of 1x3x8x8 for image/);
});

test("each call makes tensors of its numbers, as each of ours copies them, and gives them up", async () => {
  const [made, deleted] = [[], []];
  class Tensor {
    constructor(data, dims) {
      Object.assign(this, { data: data.slice(), dims });
      made.push(this);
    }
    delete() {
      deleted.push(this);
    }
  }
  const program = { run: async ([a, b]) => [a.data[0] + b.data[0]] };
  const numbers = [new Float32Array([1]), new Float32Array([2])];
  const call = () => callOn({ Tensor }, program, numbers.map((data) => [data, [1]]));
  assert.deepEqual(await call(), [3]);
  numbers[0][0] = 5;
  assert.deepEqual(await call(), [7]);
  assert.deepEqual([made.length, deleted], [4, made]);
});
