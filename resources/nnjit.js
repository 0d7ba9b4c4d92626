/** The public API, under the path from which pages import it: a bundle has this file at its root. */
export { EngineError, env, InferenceSession, MANIFEST_VERSION, Tensor } from "./sdk/session.js";
