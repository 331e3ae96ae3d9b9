// Package podview reads pods: what their containers hold, ask for and were killed by, as amounts. It is the one place where
// quantities become amounts and back.
package podview
