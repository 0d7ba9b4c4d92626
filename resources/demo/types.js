/** Types of the page. */

/** @import { Tensor } from "../sdk/session.js" */
/** @typedef {{name: string, type: string, shape: readonly number[]}} Port */
/**
 * One control of the page for one input, or for all of a text.
 * @typedef {object} Source
 * @property {HTMLElement} element
 * @property {() => string} label what it gives now
 * @property {() => Promise<Record<string, Tensor>>} feeds
 * @property {HTMLCanvasElement} [canvas] the picture
 * @property {Words} [words] of a text
 */
/**
 * @typedef {object} Words
 * @property {Tokenizer} tokenizer
 * @property {() => string} text
 * @property {() => number} place of the token that is asked for: a mask, or the last one
 * @property {() => string[]} others to compare with
 * @property {(text: string) => Promise<Record<string, Tensor>>} feedsOf
 */
/**
 * Of tokenizers.js, which is @huggingface/tokenizers 0.2.0 as it was published (Apache-2.0).
 * @typedef {object} Tokenizer
 * @property {(text: string, options?: {add_special_tokens?: boolean}) => {ids: number[]}} encode
 * @property {(ids: number[], options?: {skip_special_tokens?: boolean}) => string} decode
 * @property {(token: string) => number | undefined} token_to_id
 * @property {(id: number) => string | undefined} id_to_token
 */

export {};
