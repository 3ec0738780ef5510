// Evaluates groups of rules with the code of Prometheus, at the times of a simulated clock.
//
// One case per line of standard input, as JSON: series with their samples, versions of a group as rule files,
// and events. One line of standard output per case: the states of rules and alerts after each evaluation, the
// alerts that were sent, and all series that the rules wrote.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// longestLine bounds the JSON of a case.
const longestLine = 256 << 20

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "rulesharness:", err)
		os.Exit(1)
	}
}

func run() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 0, 1<<20), longestLine)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var one Case
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return fmt.Errorf("reading a case: %w", err)
		}
		outcome, err := evaluate(&one)
		if err != nil {
			outcome = &Outcome{Failure: err.Error(), Steps: []Step{}, Series: []Series{}}
		}
		text, err := json.Marshal(outcome)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return lines.Err()
}
