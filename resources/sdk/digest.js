/** SHA-256 of files: the browser's own in secure contexts, else one in JavaScript. */
import { script } from "../engine/errors.js";

/** @param {Uint8Array<ArrayBuffer>} bytes @returns {Promise<string>} in hexadecimal digits */
export async function sha256(bytes) {
  const subtle = globalThis.crypto?.subtle;
  const digest = subtle ? new Uint8Array(await subtle.digest("SHA-256", bytes)) : (await script(import("./sha256.js"))).sha256(bytes);
  return Array.from(digest, (b) => b.toString(16).padStart(2, "0")).join("");
}
