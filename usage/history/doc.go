// Package history keeps the usage history of the containers that policies want, in memory, and keeps it up to
// date: each source is asked for the past once and then only for what is new.
//
// For each distinct source there are at most two reads in a refresh, however many workloads there are: one for
// what is new in all of them, and one that goes further back for the workloads that need it.
//
// The data takes this way:
//
//  1. Store.Want records which workloads a policy needs. A Store has one pool for each source (usage.Digest).
//  2. Store.Refresh makes the pool plan its queries: increments for what is new, backfill for the past.
//  3. A collector takes the answer and keeps the highest replica of each step.
//  4. A merge writes the answer into the histories of the pool's index.
//  5. A history has one packed series for each measure (package codec). Its bytes count against the share that its
//     namespace has of the budget.
//  6. Store.Profile makes a digest of a history when it is first asked for, and reads the profile from it.
//
// The package never asks a source while it holds Store.mutex, it writes nothing to disk or to the API server, and
// it decides no size. Start reading at store.go, then refresh.go, pool.go and series.go.
package history
