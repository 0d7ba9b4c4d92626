/** The worker of a proxied session: the session, and the calls that the page makes. */
import { Tensor } from "../sdk/tensor.js";
import { buffers, parcels, toFailure } from "./calls.js";
import { open } from "./open.js";

/** @import { InferenceSession } from "../sdk/session.js" */
/** @import { Call, Parcel } from "./calls.js" */

/** @type {InferenceSession} */ let session;
/** @type {Map<number, {tokens: AsyncGenerator, control: AbortController}>} */ const texts = new Map();

/** @param {Record<string, Parcel>} feeds */
const tensors = (feeds) => Object.fromEntries(Object.entries(feeds).map(([name, { type, data, dims }]) => [name, new Tensor(type, data, dims)]));

/** Each gives a value, and what of it is handed over. @type {Record<string, (...args: any[]) => Promise<[any, Transferable[]?]>>} */
const CALLS = {
  async create(source, options) {
    session = await open(source, { ...options, onProgress: (progress) => postMessage({ progress }) });
    return [facts()];
  },
  async run(feeds, fetches) {
    const outputs = parcels(await session.run(tensors(feeds), fetches));
    return [{ outputs, facts: facts() }, buffers(outputs)];
  },
  async warmUp(sizes) {
    return [await session.warmUp(sizes)];
  },
  async profile(feeds, runs) {
    return [await session.profile(tensors(feeds), runs)];
  },
  async generate(text, ids, options) {
    const control = new AbortController();
    texts.set(text, { tokens: session.generate(ids, { ...options, signal: control.signal }), control });
    return [null];
  },
  async next(text) {
    return [await texts.get(text)?.tokens.next()];
  },
  async cancel(text) {
    texts.get(text)?.control.abort();
    return [null];
  },
  async end(text) {
    await texts.get(text)?.tokens.return(undefined);
    texts.delete(text);
    return [null];
  },
};

/** What may be asked of a session without a message. */
function facts() {
  const { executionProvider, fallbackReason, verified, manifest, inputNames, outputNames, inputMetadata, outputMetadata, tier, memoryBytes, threads } = session;
  return { executionProvider, fallbackReason, verified, manifest, inputNames, outputNames, inputMetadata, outputMetadata, tier, memoryBytes, threads };
}

addEventListener("message", async (/** @type {MessageEvent<Call>} */ { data: { id, call, args } }) => {
  try {
    const [value, transfer = []] = await CALLS[call](...args);
    postMessage({ id, value }, { transfer });
  } catch (e) {
    postMessage({ id, failure: toFailure(e) });
  }
});
