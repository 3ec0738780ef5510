// Package destination has the fields of a destination that the rings use.
package destination

// Destination is a member of a ring.
type Destination struct {
	Addr     string
	Instance string
}
