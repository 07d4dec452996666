// One binary with every component of the local cluster, and Helm: the first argument names the component.
// The components are the upstream ones, untouched; this file only chooses among them.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sort"
	"strings"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	helm "helm.sh/helm/v4/pkg/cmd"
	helmkube "helm.sh/helm/v4/pkg/kube"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func daemon(command func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(command())) }
}

// components maps a name to what runs it. os.Args is already what the component expects.
var components = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"coredns":                 func() { dnsserver.Quiet = true; coremain.Run() },
	"kube-apiserver":          daemon(apiserver.NewAPIServerCommand),
	"kube-controller-manager": daemon(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          daemon(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              daemon(proxy.NewProxyCommand),
	"kubelet":                 daemon(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kubectl":                 runKubectl,
	"helm":                    runHelm,
}

func runKubectl() {
	// Verbosity counts from the first line of kubectl's construction on, as in its own main.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}

func runHelm() {
	// The field manager is "helm" whatever this program is called.
	helmkube.ManagedFieldsManager = "helm"
	command, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
	if err != nil {
		slog.Warn("command failed", slog.Any("error", err))
		os.Exit(1)
	}
	if err := command.Execute(); err != nil {
		if coded, ok := err.(helm.CommandError); ok {
			os.Exit(coded.ExitCode)
		}
		os.Exit(1)
	}
}

// hideFlagsOfCoreDNS undoes what linking CoreDNS did to the process-wide flags: its -version hides that of kube-proxy.
func hideFlagsOfCoreDNS() {
	own := map[string]bool{"conf": true, "plugins": true, "pidfile": true, "version": true, "quiet": true, "dns.port": true, "p": true}
	others := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	flag.VisitAll(func(f *flag.Flag) {
		if !own[f.Name] {
			others.Var(f.Value, f.Name, f.Usage)
		}
	})
	flag.CommandLine = others
}

func names() string {
	all := make([]string, 0, len(components))
	for name := range components {
		all = append(all, name)
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintf(os.Stderr, "usage: controlplane COMPONENT [arguments], where COMPONENT is one of %s\n", names())
		os.Exit(2)
	}
	name := os.Args[1]
	run, known := components[name]
	if !known {
		fmt.Fprintf(os.Stderr, "controlplane: unknown component %q; it is one of %s\n", name, names())
		os.Exit(2)
	}
	if name != "coredns" {
		hideFlagsOfCoreDNS()
	}
	// Every component reads os.Args; its name takes the place of the program's.
	os.Args = append([]string{name}, os.Args[2:]...)
	run()
}
