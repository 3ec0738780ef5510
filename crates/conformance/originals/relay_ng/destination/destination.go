// Package destination has of a destination what its rings look at.
package destination

// Destination is a member of a ring.
type Destination struct {
	Addr     string
	Instance string
}
