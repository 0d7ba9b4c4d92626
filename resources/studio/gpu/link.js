/** The bridge's WebSocket: requests find their replies, and its end is the end of the device. */
import { GpuError, lostError } from "../../engine/gpu/errors.js";
import { decodeFrame, encodeFrame } from "../frames.js";

/** @import { Header } from "../frames.js" */
/** @typedef {{header: Header, blobs: Uint8Array<ArrayBuffer>[]}} Reply */
/** @typedef {{resolve: (reply: Reply) => void, reject: (error: GpuError) => void}} Waiting */

const NO_BRIDGE = "Look at what `nnjit doctor` says of wgpu, or use the Wasm backend.";

export class Link {
  /** @type {Map<number, Waiting>} */ #waiting = new Map();
  #ids = 0;
  #reason = "";
  #socket;
  /** @type {GpuError | null} why every call fails from now on */ gone = null;
  /** Whether it is we who hung up. */ left = false;

  /** @param {string} address */
  constructor(address) {
    const socket = (this.#socket = new WebSocket(address));
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => this.#receive(decodeFrame(data)));
    /** @type {Promise<{reason: string, message: string}>} */
    this.lost = new Promise((resolve) => {
      socket.addEventListener("close", () => {
        const how = { reason: this.left ? "destroyed" : "unknown", message: this.#reason };
        this.#end(lostError(how));
        resolve(how);
      });
    });
  }

  /** @returns {Promise<Reply>} the facts of the device */
  async opened() {
    const open = new Promise((resolve) => this.#socket.addEventListener("open", () => resolve(null)));
    try {
      await Promise.race([open, this.lost]);
      return await this.ask({ type: "open" });
    } catch (e) {
      const { error, hint, code } = /** @type {GpuError} */ (e);
      if (code !== "gpu-lost") {
        this.leave();
        throw new GpuError("gpu-unavailable", error, hint || NO_BRIDGE);
      }
      throw new GpuError("gpu-unavailable", `The GPU bridge does not start: ${this.#reason || "the Studio does not answer"}.`, NO_BRIDGE);
    }
  }

  /** @param {Header} header @param {Uint8Array[]} [blobs] @returns {Promise<Reply>} */
  ask(header, blobs) {
    if (this.gone) return Promise.reject(this.gone);
    const id = ++this.#ids;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.tell({ ...header, id }, blobs);
    });
  }

  /** @param {Header} header @param {Uint8Array[]} [blobs] */
  tell(header, blobs) {
    this.#socket.send(encodeFrame(header, blobs));
  }

  leave() {
    this.left = true;
    this.#end(lostError({ reason: "destroyed", message: "" }));
    this.#socket.close();
  }

  /** @param {Reply} reply */
  #receive(reply) {
    const { header } = reply;
    if (header.type === "ended") {
      this.#reason ||= header.reason;
      return;
    }
    const waiting = this.#waiting.get(/** @type {number} */ (header.id));
    this.#waiting.delete(/** @type {number} */ (header.id));
    if (header.type === "error") waiting?.reject(new GpuError(header.code, header.error, header.hint));
    else waiting?.resolve(reply);
  }

  /** @param {GpuError} error */
  #end(error) {
    this.gone ??= error;
    for (const { reject } of this.#waiting.values()) reject(this.gone);
    this.#waiting.clear();
  }
}
