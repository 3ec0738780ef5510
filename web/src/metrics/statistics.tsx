// What a query of PromQL cost, by phase.

import type { Statistics } from "../api/prometheus.ts";
import { Popover } from "../frame/popover.tsx";
import { bytes, count } from "../frame/text.ts";
import { length } from "../frame/time.ts";

const PHASES: [string, string][] = [
  ["queue", "Waiting in the queue"],
  ["index", "Index: footers, postings"],
  ["ram", "Pages from memory"],
  ["flash", "Pages from flash"],
  ["store", "Pages from the store"],
  ["evaluation", "Evaluation, all threads"],
  ["keptSteps", "Step cache"],
];
const AMOUNTS: [string, string, (value: number) => string][] = [
  ["series", "Series selected", count],
  ["blocks", "Blocks opened", count],
  ["pagesRead", "Pages read", count],
  ["pagesFromRam", "Pages from memory", count],
  ["pagesFromFlash", "Pages from flash", count],
  ["storeRequests", "Requests to the store", count],
  ["storeBytes", "Bytes from the store", bytes],
  ["keptUnitsAsked", "Runs of steps needed", count],
  ["keptUnitsFound", "Runs of steps from the step cache", count],
  ["memoryPeakBytes", "Most memory at a time", bytes],
];

export function PromStatistics({ statistics, took }: { statistics: Statistics; took: number }) {
  const { phases = {}, amounts = {}, samples, timings } = statistics;
  const total = timings["execTotalTime"];
  return (
    <Popover label={<span class="figures">{count(samples.totalQueryableSamples)} samples in {length(total === undefined ? took : total * 1000)}</span>} title="What the query cost" class="quiet">
      {() => (
        <table class="statistics">
          <tbody>
            {PHASES.filter(([name]) => name in phases).map(([name, title]) => (
              <tr key={name}><th scope="row">{title}</th><td>{length((phases[name] ?? 0) * 1000)}</td></tr>
            ))}
            {AMOUNTS.filter(([name]) => name in amounts).map(([name, title, shown]) => (
              <tr key={name}><th scope="row">{title}</th><td>{shown(amounts[name] ?? 0)}</td></tr>
            ))}
            <tr><th scope="row">Until the answer was here</th><td>{length(took)}</td></tr>
          </tbody>
        </table>
      )}
    </Popover>
  );
}
