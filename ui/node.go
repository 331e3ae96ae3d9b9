package ui

import (
	"context"
	"strings"
	"time"

	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// mostOfNode limits the rows of a node's tables. It is enough for the 110 pods that a kubelet accepts by default, with
// four containers each.
const mostOfNode = 500

// Nodes lists the nodes that the operator sees.
type Nodes struct {
	// Names is in alphabetical order.
	Names []string
	// Problem is a sentence that says why no nodes are shown; empty if they are shown.
	Problem string
	At      time.Time
}

// nodesPage is the model of the list of nodes.
type nodesPage struct {
	Nodes
	Rows []nodeRow
	Pages
}

// nodeRow is one node. Amounts are pairs of CPU and memory.
type nodeRow struct {
	Name, Path string
	// Shares counts the pods that share the node, Pods all pods, Leaving the pods to evict.
	Shares, Pods, Leaving int
	// Fixed is the footprint of pods outside the sharing, Available the rest of the node, Needed the demand of the
	// sharing pods.
	Fixed, Available, Needed string
	// State says why the node needs attention; empty if it does not.
	State string
}

// nodePage is the model of a node's page.
type nodePage struct {
	At             time.Time
	Name, Sentence string
	Facts          []fact
	// Overcommitted is a sentence; empty if the pods fit. HoldersHead is the heading of Holders.
	Overcommitted, HoldersHead string
	Holders                    []string
	// Note says which data is missing.
	Note   string
	Tables []table
}

func nodePath(name string) string { return Path + "nodes/" + segment(name) }

// nodesOf builds the model. It calls node only for the nodes on this page, until ctx ends.
func nodesOf(ctx context.Context, all Nodes, page int, node func(context.Context, string) (answers.NodeAnswer, bool, error)) (nodesPage, error) {
	out := nodesPage{Nodes: all, Pages: pagesOf(Path+"nodes", page, len(all.Names))}
	for _, name := range all.Names[out.first:out.last] {
		row := nodeRow{Name: name, Path: nodePath(name), State: "not reconciled yet"}
		if ctx.Err() == nil {
			n, known, err := node(ctx, name)
			if err != nil {
				return out, err
			}
			if known {
				row = nodeRowOf(n)
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

func nodeRowOf(n answers.NodeAnswer) nodeRow {
	row := nodeRow{
		Name: n.Node, Path: nodePath(n.Node), Pods: len(n.Pods), Leaving: len(n.Evictions),
		Fixed: amountsText(n.Fixed), Available: amountsText(n.Available), Needed: "–",
	}
	for i := range n.Pods {
		if n.Pods[i].Shares {
			row.Shares++
		}
	}
	if d := n.Decided; d != nil {
		row.Needed = amountsText(d.Needed)
		switch {
		case d.Overcommitted:
			row.State = "Overcommitted"
		case len(d.Holders) > 0:
			row.State = "pods have less than their base demands"
		}
	}
	return row
}

// amountsText returns a text like "3900m, 7.9Gi".
func amountsText(p answers.NodeAmounts) string {
	return answers.Readable(recommender.CPU, p.CPU) + ", " + answers.Readable(recommender.Memory, p.Memory)
}

// nodeOf builds the model of one node.
func nodeOf(n answers.NodeAnswer, at time.Time) nodePage {
	out := nodePage{
		At: at, Name: n.Node, Sentence: n.Sentence(at) + ".", Overcommitted: n.Overcommitted(), HoldersHead: answers.HoldersHead, Holders: n.Holders(),
		Facts: []fact{
			{"allocatable", amountsText(n.Allocatable)}, {"fixed pods", amountsText(n.Fixed)}, {"for sharing pods", amountsText(n.Available)},
		},
	}
	if n.Decided == nil {
		out.Note = "No pod with strategy Node shares this node, so there are no grants. A container gets the resources of its in-flight resize, otherwise it keeps its current resources."
	} else {
		out.Facts = append(out.Facts, fact{"needed", amountsText(n.Decided.Needed)}, fact{"shared headroom", headroom(n)})
	}
	for _, t := range []struct {
		title string
		answers.Table
	}{{"Containers", n.Containers()}, {"Pods to evict", n.Leaving()}, {"Computation of the shares", n.Computation()}} {
		if len(t.Rows) == 0 {
			continue
		}
		part := table{Title: t.title, Rows: t.Rows[:min(len(t.Rows), mostOfNode)], More: max(0, len(t.Rows)-mostOfNode)}
		part.Header = podview.Map(t.Header, func(name string) string { return strings.ReplaceAll(strings.ToLower(name), "cpu", "CPU") })
		for _, row := range part.Rows { // this page owns the rows, so it may change them
			for i, cell := range row {
				row[i] = orDash(cell)
			}
		}
		out.Tables = append(out.Tables, part)
	}
	return out
}

// headroom returns the available resources minus the needed ones. Spikes of the sharing pods use them.
func headroom(n answers.NodeAnswer) string {
	left := func(r recommender.Resource, has, needs string) string {
		return answers.Readable(r, recommender.Format(r, max(0, exactly(r, has)-exactly(r, needs))))
	}
	return left(recommender.CPU, n.Available.CPU, n.Decided.Needed.CPU) + ", " + left(recommender.Memory, n.Available.Memory, n.Decided.Needed.Memory)
}

// exactly parses a quantity into millicores or bytes; 0 if it does not parse.
func exactly(r recommender.Resource, text string) recommender.Amount {
	quantity, err := workload.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return podview.AmountOf(r, quantity)
}
