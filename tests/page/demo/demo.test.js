/** The parts of a bundle's page that do not need a page. */
import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.document ??= /** @type {any} */ ({ baseURI: "http://static.example/" });
const { numbersOf } = await import("../../../resources/demo/arrays.js");
const { boxesOf } = await import("../../../resources/demo/boxes.js");
const { cosine, shares, top } = await import("../../../resources/demo/outputs.js");
const { formOf, scaleOf, valuesOf } = await import("../../../resources/demo/picture.js");
const { fitted } = await import("../../../resources/demo/sound.js");
const { idsOf, textSource, tokenizerOf } = await import("../../../resources/demo/text/input.js");

const near = (/** @type {number} */ a, /** @type {number} */ b) => assert.ok(Math.abs(a - b) < 1e-6, `${a} is not ${b}`);

test("scores become shares once, and shares stay", () => {
  const made = shares([1, 2, 3]);
  near(made[2], 1 / (1 + Math.exp(-1) + Math.exp(-2)));
  assert.deepEqual(shares([0.25, 0.75]), [0.25, 0.75]);
  assert.deepEqual(top([0.1, 0.6, 0.3], 2).map(({ i }) => i), [1, 2]);
  near(cosine([1, 0], [1, 1]), Math.SQRT1_2);
  assert.equal(cosine([0, 0], [1, 1]), 0);
});

test("a picture's points become the model's values in its order and scale", () => {
  const rgba = [255, 0, 51, 255, 0, 255, 102, 255];
  const first = formOf([1, 3, 1, 2]);
  assert.deepEqual(first, { width: 2, height: 1, colours: 3, last: false });
  [1, 0, 0, 1, 0.2, 0.4].forEach((v, i) => near(valuesOf(rgba, first, "unit")[i], v));
  const last = formOf([1, 2, 1, 3]);
  assert.ok(last.last);
  [1, -1, -0.6, -1, 1, -0.2].forEach((v, i) => near(valuesOf(rgba, last, "signed")[i], v));
  near(valuesOf(rgba, first, "imagenet")[0], (1 - 0.485) / 0.229);
  assert.deepEqual([[0, 1], [-1, 1], [-2, 2], [0, 200]].map((data) => scaleOf(data, "float32")), ["unit", "signed", "imagenet", "bytes"]);
});

test("boxes of each form come out as corners of 0 to 1, the best of those that overlap", () => {
  const rows = [
    [50, 50, 20, 20, 0.9, 0.1],
    [51, 50, 20, 20, 0.8, 0.1], // lies on the first
    [20, 20, 10, 10, 0.1, 0.6],
    [80, 80, 10, 10, 0.1, 0.1], // too little
    ...Array.from({ length: 6 }, () => [0, 0, 0, 0, 0, 0]),
  ];
  const lying = Array.from({ length: 60 }, (_, i) => rows[i % 10][Math.floor(i / 10)]);
  const yolo = boxesOf({ dims: [1, 6, 10], data: lying }, null, null, 100, 100);
  assert.deepEqual(yolo.map(({ kind, score }) => [kind, score]), [[0, 0.9], [1, 0.6]]);
  near(yolo[0].left, 0.4);
  near(yolo[0].bottom, 0.6);
  const scores = { dims: [1, 2, 2], data: [-3, 2, -3, -4] };
  const detr = boxesOf({ dims: [1, 2, 4], data: [0.5, 0.5, 0.2, 0.4, 0, 0, 0, 0] }, scores, null, 100, 100);
  assert.equal(detr.length, 1);
  assert.equal(detr[0].kind, 1);
  near(detr[0].top, 0.3);
  const corners = boxesOf({ dims: [1, 1, 4], data: [10, 20, 30, 40] }, { dims: [1, 1], data: [0.7] }, { dims: [1, 1], data: [5] }, 100, 100);
  assert.equal(corners[0].kind, 5);
  near(corners[0].top, 0.2);
});

test("arrays are refused by what is wrong with them", () => {
  assert.deepEqual(numbersOf("[1, 2]\n3", 3), [1, 2, 3]);
  assert.throws(() => numbersOf("1 2", 3), /These are 2 numbers; the input takes 3/);
  assert.throws(() => numbersOf("a", 1), /Give numbers/);
  assert.deepEqual([...fitted([1, 2, 3], 2)], [1, 2]);
  assert.deepEqual([...fitted([1], 3)], [1, 0, 0]);
});

const vocab = Object.fromEntries(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "sea", "water", "##s", "is"].map((word, id) => [word, id]));
const special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"].map((content, id) => ({ id, content, special: true, single_word: false, lstrip: false, rstrip: false, normalized: false }));
const description = {
  version: "1.0",
  added_tokens: special,
  normalizer: { type: "BertNormalizer", clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
  pre_tokenizer: { type: "BertPreTokenizer" },
  post_processor: { type: "BertProcessing", sep: ["[SEP]", 3], cls: ["[CLS]", 2] },
  decoder: { type: "WordPiece", prefix: "##", cleanup: true },
  model: { type: "WordPiece", unk_token: "[UNK]", continuing_subword_prefix: "##", max_input_chars_per_word: 100, vocab },
};

test("a text too long keeps the tokens that begin and end it", () => {
  const tokenizer = tokenizerOf(description);
  assert.deepEqual(idsOf(tokenizer, "Sea waters bread", 8), [2, 4, 5, 6, 1, 3]);
  assert.deepEqual(idsOf(tokenizer, "Sea waters is", 4), [2, 4, 5, 3]);
  assert.throws(() => tokenizerOf({ model: {} }), /The tokenizer cannot be read/);
});

test("a text fills ids, mask, types and positions", async () => {
  const element = () => new Proxy(function () {}, { get: (target, key) => (key === "value" ? "sea water" : Reflect.get(target, key) ?? (() => {})), set: () => true });
  Object.assign(globalThis.document, { createElement: element });
  const given = (/** @type {string} */ name) => [{ port: { name, type: "int64", shape: [1, 6] }, sample: null }];
  const source = textSource(description, { text: given("a"), mask: given("b"), types: given("c"), positions: given("d") }, false);
  const feeds = await /** @type {any} */ (source.words).feedsOf("sea water");
  const rows = Object.fromEntries(Object.entries(feeds).map(([name, tensor]) => [name, Array.from(tensor.data, Number)]));
  assert.deepEqual(rows, { a: [2, 4, 5, 3, 0, 0], b: [1, 1, 1, 1, 0, 0], c: [0, 0, 0, 0, 0, 0], d: [0, 1, 2, 3, 4, 5] });
});
