// Command criproxy stands between a kubelet and its container runtime. It passes on what they say, but for changes of
// containers' resources: a file says which of them it spoils.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// mostBytes of one message; the kubelet takes as many.
const mostBytes = 16 << 20

func main() {
	listen := flag.String("listen", "", "the socket for the kubelet")
	runtime := flag.String("runtime", "", "the socket of the container runtime")
	faults := flag.String("faults", "", "the file that says what is spoiled")
	flag.Parse()
	if err := serve(*listen, *runtime, faultFile(*faults)); err != nil {
		fmt.Fprintln(os.Stderr, "criproxy:", err)
		os.Exit(1)
	}
}

func serve(listen, runtime string, faults faultFile) error {
	backend, err := grpc.NewClient("unix://"+runtime, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostBytes), grpc.ForceCodecV2(raw{})))
	if err != nil {
		return err
	}
	if err := os.Remove(listen); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	socket, err := net.Listen("unix", listen)
	if err != nil {
		return err
	}
	return newServer(backend, faults).Serve(socket)
}

func newServer(backend *grpc.ClientConn, faults faultFile) *grpc.Server {
	p := proxy{backend, faults}
	return grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.MaxRecvMsgSize(mostBytes), grpc.UnknownServiceHandler(p.handle))
}
