package ui

import (
	"context"
	"fmt"
	"net/http"
)

func (h handler) nodes(r *http.Request) (answer, error) {
	all, err := h.caches.Nodes(r.Context())
	if err != nil {
		return answer{}, err
	}
	ctx, stop := context.WithTimeout(r.Context(), rowsWithin)
	defer stop()
	page, err := nodesOf(ctx, all, pageOf(r), h.caches.Node)
	if err != nil {
		return answer{}, err
	}
	return found("nodes", page)
}

func (h handler) node(r *http.Request) (answer, error) {
	all, err := h.caches.Nodes(r.Context())
	if err != nil {
		return answer{}, err
	}
	if all.Problem != "" {
		return missing("%s", all.Problem)
	}
	name := r.PathValue("node")
	switch n, known, err := h.caches.Node(r.Context(), name); {
	case err != nil:
		return answer{}, err
	case !known:
		return missing("Node %s is not known to the operator.", name)
	default:
		return found("node", nodeOf(n, all.At))
	}
}

// savings are added up by one request at a time. The turn has ended when the page is sent: a slow reader keeps no other waiting.
func (h handler) savings(r *http.Request) (answer, error) {
	ctx, stop := context.WithTimeout(r.Context(), addedWithin)
	defer stop()
	namespace, page := r.PathValue("namespace"), pageOf(r)
	path := savingsPath(namespace)
	if last, known := h.adding.known(path, page); known {
		return found("savings", last)
	}
	if !h.adding.begin(ctx) {
		return late("Other savings are being added up: try again in some seconds.")
	}
	defer h.adding.end()
	if last, known := h.adding.known(path, page); known { // it was made meanwhile
		return found("savings", last)
	}
	cluster, err := h.caches.All(ctx, namespace)
	switch {
	case err != nil:
		return answer{}, err
	case namespace != "" && len(cluster.Recommendations) == 0:
		return missing("Namespace %s has no AttuneRecommendation.", namespace)
	}
	made, whole := savedOf(ctx, cluster, namespace, page, h.caches.Savings(ctx))
	if !whole {
		return late(fmt.Sprintf("%d workloads could not be added up in time: kubectl attune savings adds up a namespace with -n.", len(cluster.Recommendations)))
	}
	h.adding.keep(path, page, made)
	return found("savings", made)
}

func late(sentence string) (answer, error) {
	return answer{http.StatusServiceUnavailable, "late", sentence}, nil
}

func (h handler) search(r *http.Request, cluster Cluster) (answer, error) {
	return found("search", searchOf(cluster, r.URL.Query().Get("q"), pageOf(r)))
}
