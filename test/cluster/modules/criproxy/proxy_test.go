package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// played is a container runtime that notes what it is asked.
type played struct {
	cri.UnimplementedRuntimeServiceServer
	updates chan *cri.UpdateContainerResourcesRequest
}

func (p *played) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{RuntimeName: "played"}, nil
}

func (p *played) UpdateContainerResources(_ context.Context, r *cri.UpdateContainerResourcesRequest) (*cri.UpdateContainerResourcesResponse, error) {
	p.updates <- r
	return &cri.UpdateContainerResourcesResponse{}, nil
}

func (p *played) GetContainerEvents(_ *cri.GetEventsRequest, to cri.RuntimeService_GetContainerEventsServer) error {
	for _, id := range []string{"one", "two"} {
		if err := to.Send(&cri.ContainerEventResponse{ContainerId: id}); err != nil {
			return err
		}
	}
	return nil
}

// between starts a played runtime and the proxy, and returns the kubelet's end.
func between(t *testing.T, faults map[string]fault) (cri.RuntimeServiceClient, *played) {
	t.Helper()
	dir := t.TempDir()
	runtime := &played{updates: make(chan *cri.UpdateContainerResourcesRequest, 10)}
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, runtime)
	backend := dial(t, listen(t, server, filepath.Join(dir, "runtime.sock")), grpc.ForceCodecV2(raw{}))
	text, err := json.Marshal(faults)
	require.NoError(t, err)
	file := filepath.Join(dir, "faults.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return cri.NewRuntimeServiceClient(dial(t, listen(t, newServer(backend, faultFile(file)), filepath.Join(dir, "proxy.sock")))), runtime
}

func listen(t *testing.T, server *grpc.Server, path string) string {
	t.Helper()
	socket, err := net.Listen("unix", path)
	require.NoError(t, err)
	go func() { _ = server.Serve(socket) }()
	t.Cleanup(server.Stop)
	return path
}

func dial(t *testing.T, path string, options ...grpc.CallOption) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(options...))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestEverythingElseIsPassedOn(t *testing.T) {
	kubelet, _ := between(t, nil)
	version, err := kubelet.Version(t.Context(), &cri.VersionRequest{})
	require.NoError(t, err)
	assert.Equal(t, "played", version.RuntimeName)
	_, err = kubelet.ListContainers(t.Context(), &cri.ListContainersRequest{})
	assert.Equal(t, codes.Unimplemented, status.Code(err), "errors too: %v", err)
	events, err := kubelet.GetContainerEvents(t.Context(), &cri.GetEventsRequest{})
	require.NoError(t, err)
	var ids []string
	for {
		event, err := events.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		ids = append(ids, event.ContainerId)
	}
	assert.Equal(t, []string{"one", "two"}, ids)
}

func TestFaults(t *testing.T) {
	kubelet, runtime := between(t, map[string]fault{
		"fails": {Kind: "fail"}, "lies": {Kind: "lie"}, "half": {Kind: "half"}, "late": {Kind: "late", Seconds: 1}, "unknown": {Kind: "typo"},
	})
	update := func(id string) error {
		_, err := kubelet.UpdateContainerResources(t.Context(), &cri.UpdateContainerResourcesRequest{
			ContainerId: id, Linux: &cri.LinuxContainerResources{CpuShares: 30, MemoryLimitInBytes: 1 << 27},
		})
		return err
	}
	for _, c := range []struct {
		id     string
		memory int64 // what the runtime is asked for; -1: nothing
		wrong  string
	}{
		{"none", 1 << 27, ""},
		{"fails", -1, errRefused.Error()},
		{"lies", -1, ""},
		{"half", 0, ""},
		{"unknown", -1, `no kind of fault is called "typo"`},
	} {
		err := update(c.id)
		if c.wrong == "" {
			require.NoError(t, err, c.id)
		} else {
			require.ErrorContains(t, err, c.wrong, c.id)
		}
		if c.memory < 0 {
			assert.Empty(t, runtime.updates, c.id)
			continue
		}
		require.Len(t, runtime.updates, 1, c.id)
		asked := <-runtime.updates
		assert.Equal(t, c.id, asked.ContainerId)
		assert.Equal(t, int64(30), asked.Linux.CpuShares)
		assert.Equal(t, c.memory, asked.Linux.MemoryLimitInBytes, c.id)
	}
	begun := time.Now()
	require.NoError(t, update("late"))
	assert.GreaterOrEqual(t, time.Since(begun), time.Second)
	assert.Len(t, runtime.updates, 1)
}
