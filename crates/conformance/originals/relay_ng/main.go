// Writes the destination that carbon-relay-ng's own rings return at each of the 65,536 positions.
package main

import (
	"bufio"
	"encoding/binary"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/grafana/carbon-relay-ng/destination"
	"github.com/grafana/carbon-relay-ng/route"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func destinations(line string) []*destination.Destination {
	var found []*destination.Destination
	for _, word := range strings.Fields(line) {
		parts := strings.SplitN(word, ":", 3)
		found = append(found, &destination.Destination{Addr: parts[0] + ":" + parts[1], Instance: parts[2]})
	}
	return found
}

func main() {
	for name, withFix := range map[string]bool{"consistentHashing": false, "consistentHashing-v2": true} {
		clusters, err := os.Open(os.Args[1])
		check(err)
		file, err := os.Create(filepath.Join(os.Args[2], "carbon-relay-ng-"+name))
		check(err)
		out := bufio.NewWriter(file)
		lines := bufio.NewScanner(clusters)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			ring := route.NewConsistentHasher(destinations(lines.Text()), withFix).Ring
			for position := 0; position < 65536; position++ {
				wanted := uint16(position)
				at := sort.Search(len(ring), func(i int) bool { return ring[i].Position >= wanted }) % len(ring)
				check(binary.Write(out, binary.LittleEndian, uint16(ring[at].DestinationIndex)))
			}
		}
		check(lines.Err())
		check(out.Flush())
		check(file.Close())
	}
}
