// The control plane of the oldest Kubernetes that Cotenant promises to run on, for the tests: what it accepts and refuses.
// etcd, CoreDNS, kubectl and Helm belong to no version of Kubernetes and come out of ../controlplane.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 || components[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: oldest COMPONENT [arguments], where COMPONENT is kube-apiserver, kube-controller-manager or kube-scheduler")
		os.Exit(2)
	}
	// Every component reads os.Args; its name takes the place of the program's.
	os.Args = os.Args[1:]
	os.Exit(cli.Run(components[os.Args[0]]()))
}
