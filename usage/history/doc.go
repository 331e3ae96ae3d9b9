// Package history keeps the usage history of the containers that policies want, in memory, and keeps it up to date: each
// source is asked for the past once and then only for what is new.
//
// For each distinct source there are at most two reads a refresh, however many workloads there are: one that goes further
// back for the workloads that need it, and one for what is new for all of them.
//
// A Store has a pool for each source. Refresh has the pool plan what to ask (increments of what is new, backfill of the
// past), the collector takes the answer, and merge puts it into the histories of the pool's index. A history has a packed
// series for each measure (package codec), whose bytes are the namespace's share of the budget. A profile is read from a
// digest of the history, which is made when it is first asked for.
package history
