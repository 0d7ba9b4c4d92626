/**
 * Frames of the link: header length, JSON header, blobs, each padded to 8 bytes
 * (docs/protocol.md).
 */
import { EngineError } from "../engine/errors.js";

export const MAX_FRAME_BYTES = 128 * 1024 * 1024;

/** @typedef {{type: string, id?: number, blobs?: number[], [field: string]: any}} Header */

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** @param {number} n */
const padded = (n) => Math.ceil(n / 8) * 8;

/**
 * @param {Header} header `blobs` is filled in here
 * @param {Uint8Array[]} [blobs]
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function encodeFrame(header, blobs = []) {
  const full = blobs.length ? { ...header, blobs: blobs.map((b) => b.byteLength) } : header;
  const json = encoder.encode(JSON.stringify(full));
  const start = padded(4 + json.length);
  const total = blobs.reduce((n, b) => n + padded(b.byteLength), start);
  if (total > MAX_FRAME_BYTES) throw new EngineError(`A frame of ${total} bytes is over the limit of 128 MiB.`);
  const frame = new Uint8Array(total);
  new DataView(frame.buffer).setUint32(0, json.length, true);
  frame.set(json, 4);
  let at = start;
  for (const blob of blobs) {
    frame.set(blob, at);
    at += padded(blob.byteLength);
  }
  return frame;
}

/**
 * The blobs are views into `frame`, each 8-byte aligned.
 *
 * @param {ArrayBuffer} frame
 * @returns {{header: Header, blobs: Uint8Array<ArrayBuffer>[]}}
 */
export function decodeFrame(frame) {
  const total = frame.byteLength;
  if (total > MAX_FRAME_BYTES) throw refused(`it has ${total} bytes, over the limit of 128 MiB`);
  if (total < 4) throw refused("it is shorter than its length field");
  const length = new DataView(frame).getUint32(0, true);
  if (4 + length > total) throw refused("its header is longer than the frame");
  const header = parseHeader(new Uint8Array(frame, 4, length));
  const sizes = header.blobs ?? [];
  if (!Array.isArray(sizes) || !sizes.every((n) => Number.isSafeInteger(n) && n >= 0))
    throw refused("`blobs` is not a list of sizes");
  const blobs = [];
  let at = padded(4 + length);
  for (const nbytes of sizes) {
    if (at + nbytes > total) throw refused("its lengths do not add up");
    blobs.push(new Uint8Array(frame, at, nbytes));
    at += padded(nbytes);
  }
  if (at !== total) throw refused("its lengths do not add up");
  return { header, blobs };
}

/** @param {Uint8Array} bytes @returns {Header} */
function parseHeader(bytes) {
  let header;
  try {
    header = JSON.parse(decoder.decode(bytes));
  } catch {
    throw refused("its header is not JSON in UTF-8");
  }
  if (header === null || typeof header !== "object" || Array.isArray(header)) throw refused("its header is no object");
  if (typeof header.type !== "string") throw refused("its header has no `type`");
  return header;
}

/** @param {string} why */
const refused = (why) => new EngineError(`The frame is refused: ${why}.`);
