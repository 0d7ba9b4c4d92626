/** Makes the npm package of the runtime: `node .ci/sdk.mjs FOLDER` writes FOLDER/nnjit-runtime-VERSION.tgz. */
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const out = resolve(process.argv[2] ?? "out");
const folder = join(out, "runtime");
const FOLDERS = ["engine", "sdk", "runtime", "types"];
/** Of the demo page of a bundle, and of the Studio. */
const NOT_SHIPPED = /\.css$|\.svg$|runtime\/(package\.json|README\.md)$|__pycache__|\.py$/;

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
for (const name of FOLDERS) cpSync(join("resources", name), join(folder, name), { recursive: true, filter: (path) => !NOT_SHIPPED.test(path) });
for (const file of ["README.md", "package.json"]) cpSync(join("resources/runtime", file), join(folder, file));
cpSync("LICENSE", join(folder, "LICENSE"));

const [, version] = /__version__ = "(.+)"/.exec(readFileSync("nnjit_studio/__init__.py", "utf8")) ?? [];
const description = { ...JSON.parse(readFileSync(join(folder, "package.json"), "utf8")), version, license: "Apache-2.0" };
writeFileSync(join(folder, "package.json"), `${JSON.stringify(description, null, 2)}\n`);

const entries = ["runtime/index", "runtime/ort", "runtime/transformers", "sdk/tuning/gains"].map((name) => join("resources", `${name}.js`));
const emit = ["--allowJs", "--declaration", "--emitDeclarationOnly", "--skipLibCheck", "--target", "es2022", "--module", "es2022", "--moduleResolution", "bundler", "--lib", "es2022,dom,dom.iterable", "--types", "@webgpu/types", "--rootDir", "resources", "--outDir", folder];
execFileSync("node_modules/.bin/tsc", [...entries, ...emit], { stdio: "inherit" });

const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
const hashes = files.map(({ parentPath, name }) => {
  const path = join(parentPath, name);
  return [path.slice(folder.length + 1), createHash("sha256").update(readFileSync(path)).digest("hex")];
});
// Sources that were unpacked from an archive have no commit, and a bare machine has no git.
const commit = spawnSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" }).stdout?.trim() || null;
writeFileSync(join(folder, "PROVENANCE.json"), `${JSON.stringify({ generator: `NNJIT Studio ${version}`, commit, files: Object.fromEntries(hashes.sort()) }, null, 2)}\n`);

const npm = process.platform === "win32" ? "npm.cmd" : "npm";
const [packed] = JSON.parse(execFileSync(npm, ["pack", "--json", "--silent", "--pack-destination", out, folder], { encoding: "utf8" }));
console.log(`${join(out, packed.filename)}: ${packed.files.length} files, ${packed.size} bytes`);
