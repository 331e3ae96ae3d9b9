package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fault is how changes of a container's resources are spoiled.
type fault struct {
	// Kind: fail, none is made and the kubelet is told so; lie, none is made and the kubelet is told that it is; half, CPU
	// alone is changed; late, after Seconds. Empty: none is spoiled.
	Kind    string `json:"kind"`
	Seconds int    `json:"seconds,omitempty"`
}

var errRefused = errors.New("the runtime could not update the container's resources")

// spoil a request: what is asked of the runtime instead, if anything is.
func (f fault) spoil(ctx context.Context, request *cri.UpdateContainerResourcesRequest) (instead *cri.UpdateContainerResourcesRequest, act bool, err error) {
	switch f.Kind {
	case "":
		return request, true, nil
	case "fail":
		return nil, false, errRefused
	case "lie":
		return nil, false, nil
	case "half":
		if request.Linux != nil {
			request.Linux.MemoryLimitInBytes, request.Linux.MemorySwapLimitInBytes = 0, 0 // the runtime leaves them as they are
		}
		return request, true, nil
	case "late":
		select {
		case <-time.After(time.Duration(f.Seconds) * time.Second):
			return request, true, nil
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
	return nil, false, fmt.Errorf("no kind of fault is called %q: use fail, lie, half or late", f.Kind)
}

// faultFile holds faults by the ids of containers, as JSON. It is read for each change; where there is none, nothing is
// spoiled.
type faultFile string

func (f faultFile) of(container string) (fault, error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return fault{}, nil
	}
	if err != nil {
		return fault{}, err
	}
	var all map[string]fault
	if err := json.Unmarshal(text, &all); err != nil {
		return fault{}, fmt.Errorf("reading %s: %w", f, err)
	}
	return all[container], nil
}

func decode(message []byte) (*cri.UpdateContainerResourcesRequest, error) {
	request := &cri.UpdateContainerResourcesRequest{}
	return request, proto.Unmarshal(message, request)
}

func encode(request *cri.UpdateContainerResourcesRequest) ([]byte, error) {
	return proto.Marshal(request)
}
