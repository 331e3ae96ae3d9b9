package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/internal/answers"
)

func leading() <-chan struct{} {
	leads := make(chan struct{})
	close(leads)
	return leads
}

// knows has an answer for the node worker.
func knows(node string) (answers.NodeAnswer, bool) {
	return answers.NodeAnswer{Node: node, Decided: &answers.NodeDecided{Overcommitted: true}}, node == "worker"
}

func nobody(context.Context) string { return "" }

func ask(d *decisions, method, path string) (int, string) {
	w := httptest.NewRecorder()
	request := httptest.NewRequest(method, path, nil)
	request.Host = "localhost:8082"
	d.handler().ServeHTTP(w, request)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// Requests with another host name that resolves to this machine are rejected.
func TestHostsOfQuestions(t *testing.T) {
	d := &decisions{decided: knows, leads: leading(), leader: nobody}
	for host, want := range map[string]int{
		"localhost": http.StatusOK, "localhost:8082": http.StatusOK, "127.0.0.1:8082": http.StatusOK, "[::1]:8082": http.StatusOK,
		"evil.example:8082": http.StatusForbidden, "10.0.0.1:8082": http.StatusForbidden, "": http.StatusForbidden,
	} {
		w := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodGet, "/nodes/worker", nil)
		request.Host = host
		d.handler().ServeHTTP(w, request)
		assert.Equal(t, want, w.Code, host)
	}
}

// Requests from pages of another origin are rejected too.
func TestQuestionsOfOtherPages(t *testing.T) {
	d := &decisions{decided: knows, leads: leading(), leader: nobody}
	for site, want := range map[string]int{"cross-site": http.StatusForbidden, "same-site": http.StatusForbidden, "none": http.StatusOK, "same-origin": http.StatusOK} {
		w := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodGet, "/nodes/worker", nil)
		request.Host = "localhost:8082"
		request.Header.Set("Sec-Fetch-Site", site)
		d.handler().ServeHTTP(w, request)
		assert.Equal(t, want, w.Code, site)
	}
}

func TestDecisions(t *testing.T) {
	d := &decisions{decided: knows, leads: leading(), leader: nobody}
	code, body := ask(d, http.MethodGet, "/nodes/worker")
	require.Equal(t, http.StatusOK, code)
	var got answers.NodeAnswer
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	assert.Equal(t, "worker", got.Node)
	assert.True(t, got.Decided.Overcommitted)

	code, body = ask(d, http.MethodGet, "/nodes/gone")
	assert.Equal(t, http.StatusNotFound, code)
	assert.Equal(t, `the leader has no decision about node "gone": the node does not exist, or the leader started a moment ago`, body)
	for _, path := range []string{"/", "/nodes/", "/nodes/a/b", "/metrics"} {
		code, _ = ask(d, http.MethodGet, path)
		assert.Equal(t, http.StatusNotFound, code, path)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		code, _ = ask(d, method, "/nodes/worker")
		assert.Equal(t, http.StatusMethodNotAllowed, code, method)
	}
}

// A replica that does not lead names the leader.
func TestDecisionsAreTheLeaders(t *testing.T) {
	d := &decisions{decided: knows, leads: make(chan struct{}), leader: func(context.Context) string { return "attune-7c9-xyz" }}
	code, body := ask(d, http.MethodGet, "/nodes/worker")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Equal(t, "this replica is not the leader: pod attune-7c9-xyz is", body)
	d.leader = nobody
	_, body = ask(d, http.MethodGet, "/nodes/worker")
	assert.Equal(t, "this replica is not the leader, and there is no other leader now: try again in a moment", body)
}

func TestLeaderOf(t *testing.T) {
	scheme, err := newScheme()
	require.NoError(t, err)
	reader := fake.NewClientBuilder().WithScheme(scheme).Build()
	assert.Empty(t, leaderOf(t.Context(), reader, "attune-system"))
	require.NoError(t, reader.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "attune-system", Name: answers.LeaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("attune-7c9-xyz_705ab4f5")},
	}))
	assert.Equal(t, "attune-7c9-xyz", leaderOf(t.Context(), reader, "attune-system"))
}

// The number of concurrent requests is limited, and a further one is rejected with advice to retry.
func TestDecisionsAreFewAtATime(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	slow := func(node string) (answers.NodeAnswer, bool) {
		begun <- struct{}{}
		<-end
		return knows(node)
	}
	handler := (&decisions{decided: slow, leads: leading(), leader: nobody}).handler()
	codes := make(chan int)
	get := func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/nodes/worker", nil))
		codes <- w.Code
	}
	for range mostQuestions {
		go get()
		<-begun
	}
	go get()
	assert.Equal(t, http.StatusTooManyRequests, <-codes)
	close(end)
	for range mostQuestions {
		assert.Equal(t, http.StatusOK, <-codes)
	}
	go get()
	<-begun
	assert.Equal(t, http.StatusOK, <-codes, "there is room again")
}

// The listener ends with its context. If the address is in use, the operator runs without it.
func TestDecisionsListen(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	d := &decisions{address: address, decided: knows, leads: leading(), leader: nobody, log: logr.Discard()}
	require.NoError(t, d.Start(t.Context()), "the address is taken")
	require.NoError(t, free.Close())

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.Start(ctx) }()
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + address + "/nodes/worker")
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode == http.StatusOK && strings.Contains(string(body), `"node":"worker"`)
	}, 10*time.Second, 10*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}
