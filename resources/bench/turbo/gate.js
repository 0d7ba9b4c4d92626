/** The page of `nnjit turbo`: what a browser says about the functions of a module. */
import { conduct, fetchBytes, fetchJob, report } from "../page.js";
import { work } from "./work.js";

await conduct(async () => work(await fetchJob(), fetchBytes, report));
