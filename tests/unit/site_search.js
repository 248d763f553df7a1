// Asks the search of a built site, as its pages do: node site_search.js SITE WORDS. The page loads this worker beside itself.
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const [site, words] = process.argv.slice(2);
const [SETUP, READY, QUERY, RESULT] = [0, 1, 2, 3]; // the types of the worker's messages
const workers = path.join(site, "assets/javascripts/workers");
const worker = fs.readdirSync(workers).find((name) => /^search\..*\.js$/.test(name));
let send;
globalThis.self = globalThis;
globalThis.addEventListener = (_, listener) => { send = (type, data) => listener({ data: { type, data } }); };
globalThis.postMessage = ({ type, data }) => {
  if (type === READY) send(QUERY, words);
  if (type === RESULT) console.log(JSON.stringify(data.items.map((sections) => sections[0].location)));
};
vm.runInThisContext(fs.readFileSync(path.join(workers, worker), "utf8"));
const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"));
send(SETUP, { ...index, options: { suggest: true } });
