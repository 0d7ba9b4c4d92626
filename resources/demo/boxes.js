/** Boxes of a detector, in the forms that exporters give them. */
import { bars, make } from "./dom.js";

/** Corners from 0 to 1 of the picture. @typedef {{left: number, top: number, right: number, bottom: number, score: number, kind: number}} Box */
/** @typedef {{dims: readonly number[], data: ArrayLike<number>}} Values */

const LEAST_SCORE = 0.25;
const MOST_OVERLAP = 0.5;
const MOST = 50;

/** @param {number} x */
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/**
 * Boxes in any of these forms: one tensor of rows `[x, y, w, h, score of each class]`, lying or
 * standing (YOLO); or boxes with scores, or scores of classes, in another tensor (DETR's
 * centre and size for logits, else corners).
 * @param {Values} boxes
 * @param {Values | null} scores
 * @param {Values | null} kinds
 * @param {number} width of the model's picture
 * @param {number} height
 * @returns {Box[]} the best, without those that lie on a better one
 */
export function boxesOf(boxes, scores, kinds, width, height) {
  const [rows, fields] = boxes.dims.length === 3 ? boxes.dims.slice(1) : boxes.dims;
  const lying = !scores && fields > rows;
  const [count, each] = lying ? [fields, rows] : [rows, fields];
  /** @param {number} i @param {number} f */
  const at = (i, f) => Number(boxes.data[lying ? f * count + i : i * each + f]);
  const classes = scores ? scores.data.length / count : each - 4;
  let logits = false;
  if (scores) for (let i = 0; i < scores.data.length; i++) logits ||= scores.data[i] < 0 || scores.data[i] > 1;
  /** @param {number} i @param {number} c */
  const scoreAt = (i, c) => {
    const value = scores ? Number(scores.data[i * classes + c]) : at(i, 4 + c);
    return logits ? sigmoid(value) : value;
  };
  // the rows of detectors that choose by themselves: corners, score, class
  const chosen = !scores && !lying && each === 6;
  const centred = !chosen && (!scores || logits);
  /** @type {Box[]} */
  const found = [];
  let most = 0;
  for (let i = 0; i < count; i++) {
    let [kind, score] = [0, -1];
    if (chosen) [score, kind] = [at(i, 4), at(i, 5)];
    else for (let c = 0; c < classes; c++) if (scoreAt(i, c) > score) [kind, score] = [c, scoreAt(i, c)];
    if (score < LEAST_SCORE) continue;
    if (kinds) kind = Number(kinds.data[i]);
    const [x, y, z, w] = [0, 1, 2, 3].map((f) => at(i, f));
    const [left, top, right, bottom] = centred ? [x - z / 2, y - w / 2, x + z / 2, y + w / 2] : [x, y, z, w];
    most = Math.max(most, right, bottom);
    found.push({ left, top, right, bottom, score, kind });
  }
  if (most > 2) for (const box of found) Object.assign(box, { left: box.left / width, right: box.right / width, top: box.top / height, bottom: box.bottom / height });
  return best(found);
}

/** @param {Box[]} found */
function best(found) {
  /** @type {Box[]} */
  const kept = [];
  for (const box of found.sort((a, b) => b.score - a.score)) {
    if (kept.length === MOST) break;
    if (kept.every((other) => other.kind !== box.kind || overlap(other, box) < MOST_OVERLAP)) kept.push(box);
  }
  return kept;
}

/** Common area of both over all area. @param {Box} a @param {Box} b */
function overlap(a, b) {
  const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  const common = Math.max(0, width) * Math.max(0, height);
  /** @param {Box} box */
  const area = (box) => (box.right - box.left) * (box.bottom - box.top);
  return common / (area(a) + area(b) - common);
}

/** @param {Box[]} boxes @param {HTMLCanvasElement | undefined} picture @param {(kind: number) => string} nameOf */
export function drawBoxes(boxes, picture, nameOf) {
  if (!boxes.length) return [make("p", { className: "quiet" }, `No box has a score of ${LEAST_SCORE} or more.`)];
  const list = bars(boxes.slice(0, 10).map(({ kind, score }, i) => ({ words: `${i + 1}. ${nameOf(kind)}`, share: score, figure: `${(100 * score).toFixed(1)} %` })));
  const canvas = make("canvas", { width: picture?.width ?? 320, height: picture?.height ?? 320, className: "drawn", role: "img" });
  canvas.setAttribute("aria-label", `Picture with ${boxes.length} boxes, listed below`);
  const context = canvas.getContext("2d");
  if (!context) return [list];
  if (picture) context.drawImage(picture, 0, 0);
  const { width, height } = canvas;
  context.lineWidth = Math.max(1, width / 200);
  context.font = `600 ${Math.max(9, width / 28)}px system-ui, sans-serif`;
  boxes.forEach(({ left, top, right, bottom }, i) => {
    context.strokeStyle = "#ffffff";
    context.strokeRect(left * width - context.lineWidth, top * height - context.lineWidth, (right - left) * width + 2 * context.lineWidth, (bottom - top) * height + 2 * context.lineWidth);
    context.strokeStyle = "#0b5cb8";
    context.strokeRect(left * width, top * height, (right - left) * width, (bottom - top) * height);
    context.strokeText(String(i + 1), left * width + 4, top * height + width / 24);
    context.fillStyle = "#ffffff";
    context.fillText(String(i + 1), left * width + 4, top * height + width / 24);
  });
  return [canvas, list];
}
