/**
 * Sessions on bundles, for web pages: in the page or, with `env.wasm.proxy`, in a worker.
 *
 *     import { InferenceSession, Tensor } from "@nnjit/runtime";
 *     const session = await InferenceSession.create("/models/minilm/manifest.json", { onProgress: show });
 *     const outputs = await session.run({ input_ids: new Tensor("int64", ids, [1, ids.length]) });
 */
import { EngineError } from "../engine/errors.js";
import { InferenceSession as PageSession, env as settings, MANIFEST_VERSION, Tensor } from "../sdk/session.js";
import { open } from "./open.js";
import { ProxySession } from "./proxy.js";
import { forget } from "./store.js";

export { EngineError, forget, MANIFEST_VERSION, Tensor };

/** @import { Files } from "./files.js" */
/** @import { SessionOptions } from "./open.js" */
/** A session in the page or in a worker. @typedef {PageSession | ProxySession} Session */

/** Settings under the names of ONNX Runtime Web. */
export const env = Object.assign(settings, { wasm: Object.assign(settings.wasm, { proxy: false }) });

export const InferenceSession = {
  /**
   * @param {string | URL | Files} source address of the manifest.json of a bundle, or its files by name
   * @param {SessionOptions} [options]
   * @returns {Promise<Session>}
   */
  create: (source, options = {}) =>
    env.wasm.proxy ? ProxySession.create(source, { numThreads: env.wasm.numThreads, ...options }) : open(source, options),
};
