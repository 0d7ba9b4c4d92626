/** The worker's end of a call: one message in, one reply with its id out. */
import { errorFields } from "../engine/errors.js";

/** @import { Header } from "./frames.js" */
/** @typedef {{header: Header, blobs: Uint8Array<ArrayBuffer>[]}} Call */
/** @typedef {{header: Header, blobs?: Uint8Array[]}} Reply */

/** @param {(call: Call) => Reply | Promise<Reply>} answer */
export function serve(answer) {
  addEventListener("message", async (event) => {
    /** @type {Required<Reply>} */
    let reply;
    try {
      reply = { blobs: [], ...(await answer(event.data)) };
    } catch (e) {
      reply = { header: { type: "error", ...errorFields(e) }, blobs: [] };
    }
    reply.header.id = event.data.header.id;
    const transfer = reply.blobs.map((b) => /** @type {ArrayBuffer} */ (b.buffer));
    postMessage(reply, { transfer });
  });
}
