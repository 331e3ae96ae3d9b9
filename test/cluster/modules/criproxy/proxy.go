package main

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// updateResources is the one method that may be spoiled.
const updateResources = "/runtime.v1.RuntimeService/UpdateContainerResources"

// raw passes messages on as they are.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

type proxy struct {
	backend *grpc.ClientConn
	faults  faultFile
}

func (p proxy) handle(_ any, kubelet grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(kubelet)
	ctx := kubelet.Context()
	if asked, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, asked)
	}
	if method == updateResources {
		return p.update(ctx, kubelet)
	}
	return p.pass(ctx, method, kubelet)
}

// pass all messages on, both ways.
func (p proxy) pass(ctx context.Context, method string, kubelet grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	runtime, err := p.backend.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		for {
			var message []byte
			if err := kubelet.RecvMsg(&message); err != nil { // io.EOF: the kubelet has said all
				if errors.Is(err, io.EOF) {
					_ = runtime.CloseSend()
				} else {
					cancel()
				}
				return
			}
			if runtime.SendMsg(&message) != nil {
				return // RecvMsg below tells why
			}
		}
	}()
	for {
		var message []byte
		if err := runtime.RecvMsg(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := kubelet.SendMsg(&message); err != nil {
			return err
		}
	}
}

// update a container's resources, as its fault has it.
func (p proxy) update(ctx context.Context, kubelet grpc.ServerStream) error {
	var message, answer []byte
	if err := kubelet.RecvMsg(&message); err != nil {
		return err
	}
	request, err := decode(message)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	f, err := p.faults.of(request.ContainerId)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	changed, act, err := f.spoil(ctx, request)
	if err != nil {
		return status.Error(codes.Unknown, err.Error())
	}
	if act {
		if message, err = encode(changed); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		if err := p.backend.Invoke(ctx, updateResources, &message, &answer); err != nil {
			return err
		}
	}
	return kubelet.SendMsg(&answer)
}
