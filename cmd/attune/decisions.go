package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/ports"
	"attune.io/attune/ui"
)

const (
	// mostQuestions limits the concurrent requests.
	mostQuestions = 4
	// questionTimeout limits the time to read a request and to write its response.
	questionTimeout = 10 * time.Second
)

// decisions serves the last decisions of the node loop, for kubectl attune node, and the web page (package ui). Every
// replica listens, on loopback only. Users reach it by port forwarding, which needs a right in the operator's
// namespace.
type decisions struct {
	// address is a host and port on loopback.
	address string
	// decided returns the last decision about a node; false if the node loop has not processed the node.
	decided func(node string) (answers.NodeAnswer, bool)
	// leads is closed when this replica becomes the leader.
	leads <-chan struct{}
	// leader returns the name of the leader's pod; empty if the lease has no holder.
	leader func(context.Context) string
	// pages serves the web page; nil if there is no page.
	pages http.Handler
	log   logr.Logger
}

// loopback returns an error if address is not a port of a loopback address.
func loopback(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() || at.Port() == 0 {
		return fmt.Errorf("--decisions-bind-address %q is not a loopback address with a port: use 127.0.0.1:%d, or leave it empty to disable it", address, answers.DecisionsPort)
	}
	return nil
}

// addDecisions adds the listener, and the sampler that records values for its pages. Without an address it adds
// nothing.
func addDecisions(mgr ctrl.Manager, o *Options, decided func(node string) (answers.NodeAnswer, bool), shown pages) error {
	if o.loops.decisionsAddress == "" {
		return nil
	}
	log := ctrl.Log.WithName("decisions")
	failed := func(path string, err error) { log.Error(err, "Cannot make a page", "path", path) }
	if err := mgr.Add(&sampler{pages: shown, clock: clock.RealClock{}}); err != nil {
		return err
	}
	return mgr.Add(&decisions{
		address: o.loops.decisionsAddress, decided: decided, leads: mgr.Elected(), log: log, pages: ui.NewHandler(shown, failed),
		leader: func(ctx context.Context) string { return leaderOf(ctx, mgr.GetAPIReader(), o.process.namespace) },
	})
}

// leaderOf returns the pod that holds the lease; empty if it is not known.
func leaderOf(ctx context.Context, reader client.Reader, namespace string) string {
	lease := &coordinationv1.Lease{}
	if err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: answers.LeaseName}, lease); err != nil {
		return ""
	}
	return answers.LeaderOf(lease)
}

// NeedLeaderElection returns false: every replica listens, and a replica that does not lead names the leader.
func (*decisions) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. If the port is in use, it logs that and returns nil, because sizing must not
// stop only because decisions cannot be shown.
func (d *decisions) Start(ctx context.Context) error {
	listener, err := net.Listen("tcp", d.address)
	if err != nil {
		d.log.Error(err, "Cannot serve decisions about nodes; choose a free address with --decisions-bind-address", "address", d.address)
		return nil
	}
	server := &http.Server{Handler: d.handler(), ReadHeaderTimeout: questionTimeout, ReadTimeout: questionTimeout, WriteTimeout: questionTimeout, IdleTimeout: questionTimeout, MaxHeaderBytes: 16 << 10}
	// Close also aborts requests in flight. They are short, and the user can ask the next leader.
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler serves local requests, mostQuestions at a time. It rejects further ones with 429.
func (d *decisions) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+answers.DecisionsPath+"{name}", d.leading(d.answer))
	if d.pages != nil {
		mux.Handle("GET /{$}", http.RedirectHandler(ui.Path, http.StatusFound))
		mux.Handle("GET "+ui.Path, d.leading(d.pages.ServeHTTP))
	}
	return ports.Local(ports.AtMost(mostQuestions, mux, http.StatusTooManyRequests, "too many requests at once: try again in a moment"))
}

// leading responds with 503 if another replica leads.
func (d *decisions) leading(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-d.leads:
			answer(w, r)
		default:
			http.Error(w, d.whoLeads(r.Context()), http.StatusServiceUnavailable)
		}
	}
}

// answer writes the decision about one node as JSON; 404 if the node is unknown.
func (d *decisions) answer(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	answer, known := d.decided(name)
	if !known {
		http.Error(w, fmt.Sprintf("the leader has no decision about node %q: the node does not exist, or the leader started a moment ago", name), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		d.log.V(1).Info("Cannot send an answer", "node", name, "why", err.Error())
	}
}

// whoLeads returns a sentence that names the leader, for users that reached another replica.
func (d *decisions) whoLeads(ctx context.Context) string {
	if leader := d.leader(ctx); leader != "" {
		return fmt.Sprintf("this replica is not the leader: pod %s is", leader)
	}
	return "this replica is not the leader, and there is no other leader now: try again in a moment"
}
